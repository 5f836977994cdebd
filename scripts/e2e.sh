#!/bin/bash
# e2e.sh PANDOFS [NAME...]: runs the end-to-end tests in tests/e2e, or those named (without .sh), one
# after the other. Each is a script that gets the binary's path in $PANDOFS and an empty scratch folder
# in $SCRATCH, and passes when it exits with 0; with 77 it says that it needs something that is not there,
# as root's rights, and is left out. Files that begin with '_' are parts of tests, not tests.
set -uo pipefail
PANDOFS=$(realpath "$1")
shift
export PANDOFS
# What scripts/deps.sh built from crates.io.
PATH=$("$(dirname "$0")/cargo-target.sh")/programs/bin:$PATH
cd "$(dirname "$0")/../tests/e2e" || exit 1

if [[ $# -gt 0 ]]; then
    tests=("${@/%/.sh}")
else
    tests=()
    for file in *.sh; do
        [[ $file == _* || ! -f $file ]] || tests+=("$file")
    done
fi

passed=0
skipped=0
failed=()
for test in "${tests[@]}"; do
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/pandofs-e2e.XXXXXX")
    export SCRATCH
    log=$SCRATCH/.log
    started=$SECONDS
    bash "$test" >"$log" 2>&1 </dev/null
    code=$?
    # A test that failed may have left a mount behind. Its servers may be gone, so that it would not
    # answer: it goes first, and nothing waits for it.
    while read -r mounted; do
        umount --lazy "$mounted" 2>/dev/null || fusermount3 -uz "$mounted"
    done < <(awk -v scratch="$SCRATCH/" 'index($2, scratch) == 1 { print $2 }' /proc/self/mounts | sort -r)
    if [[ $code -eq 0 ]]; then
        printf 'ok      %-32s %4d s\n' "${test%.sh}" $((SECONDS - started))
        passed=$((passed + 1))
    elif [[ $code -eq 77 ]]; then
        printf 'skipped %-32s %s\n' "${test%.sh}" "$(tail -n 1 "$log")"
        skipped=$((skipped + 1))
    else
        printf 'FAILED  %-32s %4d s\n' "${test%.sh}" $((SECONDS - started))
        tail -n 60 "$log" | sed 's/^/        /'
        find "$SCRATCH" -xdev -name '*log.txt' -size +0 2>/dev/null | while read -r server_log; do
            echo "        --- the end of ${server_log#"$SCRATCH"/}"
            tail -n 15 "$server_log" | sed 's/^/        /'
        done
        failed+=("${test%.sh}")
    fi
    rm -rf --one-file-system "$SCRATCH"
done

echo
echo "e2e: $passed passed, ${#failed[@]} failed, $skipped skipped"
[[ ${#failed[@]} -eq 0 && $passed -gt 0 ]]
