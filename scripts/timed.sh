#!/bin/bash
# timed.sh NAME COMMAND...: runs a command, prints how long it took and ends with its code. The outermost one also prints
# where its time went, however it ended: each step inside of it, what was between them, the ten unit test programs that took
# longest, and the end-to-end tests, longest first.
#
# $PANDOFS_TIMES is a file with a line for each: its kind (step, unit or e2e), its seconds and its name, with tabs between.
# The outermost makes it; scripts/unit-runner.sh and scripts/e2e.sh add to it if it is there.
set -uo pipefail
name=$1
shift

is_outermost=
if [[ -z ${PANDOFS_TIMES:-} ]]; then
    is_outermost=1
    PANDOFS_TIMES=$(mktemp "${TMPDIR:-/tmp}/pandofs-times.XXXXXX") || exit 1
    export PANDOFS_TIMES
    trap 'rm -f "$PANDOFS_TIMES"' EXIT
    # What ends the command ends this only after the table is told.
    trap : INT TERM
fi

# longest KIND LIMIT: what took longest of that kind.
longest() {
    awk -F '\t' -v kind="$1" '$1 == kind { printf "%8.1f s  %s\n", $2, $3 }' "$PANDOFS_TIMES" | sort -rn | head -n "$2"
}

began=$EPOCHREALTIME
"$@"
code=$?
took=$(awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }')
ending=
[[ $code -eq 0 ]] || ending=", ended with $code"

if [[ -z $is_outermost ]]; then
    printf 'step\t%s\t%s\n' "$took" "$name$ending" >>"$PANDOFS_TIMES"
    echo "timed: $name took $took s$ending"
    exit "$code"
fi
if [[ -s $PANDOFS_TIMES ]]; then
    echo
    echo "where the time of '$name' went:"
    awk -F '\t' -v took="$took" '$1 == "step" { printf "%8.1f s  %s\n", $2, $3; sum += $2 }
        END { printf "%8.1f s  between the steps, or in one that did not end\n", took - sum }' "$PANDOFS_TIMES"
    for kind in unit e2e; do
        case $kind in
        unit) heading='of them unit test programs, the ten longest:' limit=10 ;;
        e2e) heading='of them end-to-end tests, several at once:' limit=1000 ;;
        esac
        lines=$(longest "$kind" "$limit")
        [[ -z $lines ]] || printf '  %s\n%s\n' "$heading" "$lines"
    done
fi
echo "timed: $name took $took s$ending"
exit "$code"
