#!/bin/bash
# unit-runner.sh LIMIT PROGRAM...: what cargo runs each unit test program by. One that takes more than LIMIT seconds is
# taken to hang: it is ended and named, and the others still run. Its seconds are noted in $PANDOFS_TIMES, if that is set
# (scripts/timed.sh).
set -uo pipefail
limit=$1
shift
began=$EPOCHREALTIME
timeout --verbose --kill-after=30 "$limit" "$@"
code=$?
if [[ -n ${PANDOFS_TIMES:-} ]]; then
    # Cargo adds a dash and 16 digits to names.
    name=$(basename "$1" | sed -E 's/-[0-9a-f]{16}$//')
    printf 'unit\t%s\t%s\n' "$(awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { print to - from }')" \
        "${CARGO_PKG_NAME:-} $name" >>"$PANDOFS_TIMES"
fi
exit "$code"
