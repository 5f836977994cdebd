#!/bin/bash
# e2e.sh PANDOFS [NAME...]: runs the end-to-end tests in tests/e2e, or those named (without .sh), twice as many at once as
# there are processors, PANDOFS_JOBS=N at once if that is set. Each is a script that gets the binary's path in
# $PANDOFS and an empty scratch folder in $SCRATCH, and passes when it exits with 0; with 77 it says that it needs
# something that is not there, as root's rights, and is left out (with PANDOFS_NO_SKIP=1 that is a failure). With
# PANDOFS_TELL=1 what a test that passes has said is printed, too. Seconds are noted in $PANDOFS_TIMES, if that is set. A test
# with a line '# alone: ' and the reason runs when no other does; those with a line '# long' begin first, so that none of them
# is left over in the end with nothing beside it; those with a line '# only by name: ' and the reason run when they are named.
# Files that begin with '_' are parts of tests, not tests.
set -uo pipefail
# Each test is a process group of its own, so that it can be ended with all that it started, and is told of
# SIGINT, which a shell keeps from what it runs in the background otherwise.
set -m
PANDOFS=$(realpath "$1")
shift
export PANDOFS
[[ -x $PANDOFS-walk ]] || {
    echo "e2e: there is no $PANDOFS-walk, which 'pandofs find' and its like run: 'make e2e' builds both" >&2
    exit 1
}
# What scripts/deps.sh built from crates.io.
PATH=$("$(dirname "$0")/cargo-target.sh")/programs/bin:$PATH
cd "$(dirname "$0")/../tests/e2e" || exit 1
# Many tests wait for servers, leases, timeouts and disks. (Whether more than twice as many as processors would be faster, or
# fewer as fast, has not been measured on an idle machine.)
JOBS=${PANDOFS_JOBS:-$((2 * $(nproc)))}
# Seconds after which a test is taken to hang (PANDOFS_LIMIT=N for another number). On slow machines the longest take a
# quarter of an hour.
LIMIT=${PANDOFS_LIMIT:-1800}

if [[ $# -gt 0 ]]; then
    tests=("${@/%/.sh}")
else
    tests=()
    for file in *.sh; do
        [[ $file == _* || ! -f $file ]] || grep -q '^# only by name: ' "$file" || tests+=("$file")
    done
fi

RESULTS=$(mktemp -d "${TMPDIR:-/tmp}/pandofs-e2e-results.XXXXXX")
# shellcheck disable=SC2329 # called by a trap
end_all() {
    trap - INT TERM EXIT
    for group in $(jobs -p); do
        kill -TERM -- "-$group" 2>/dev/null
    done
    wait
    rm -rf "$RESULTS"
}
trap 'end_all; exit 130' INT TERM
trap end_all EXIT

# run_test FILE: prints how it went, all at once, and leaves a word about it in $RESULTS.
run_test() {
    local test=$1 started=$SECONDS shell=$BASHPID code log left result
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/e2e.XXXXXX")
    export SCRATCH
    log=$SCRATCH/.log
    timeout --foreground --kill-after=30 "$LIMIT" bash "$test" >"$log" 2>&1 </dev/null
    code=$?
    # 137 is also what a test ends with whose last program was killed.
    if [[ $code -eq 124 || ($code -eq 137 && $((SECONDS - started)) -ge $LIMIT) ]]; then
        echo "FAILED: it was not done after $LIMIT s; then there were:" >>"$log"
        # All of its process group but this shell.
        for left in $(pgrep -g 0); do
            [[ $left -eq $shell || ! -e /proc/$left ]] && continue
            tr '\0' ' ' <"/proc/$left/cmdline" >>"$log"
            echo >>"$log"
            kill -KILL "$left" 2>/dev/null
        done
    fi
    # A test that failed may have left a mount behind. Its servers may be gone, so that it would not
    # answer: it goes first, and nothing waits for it.
    while read -r mounted; do
        umount --lazy "$mounted" 2>/dev/null || fusermount3 -uz "$mounted"
    done < <(awk -v scratch="$SCRATCH/" 'index($2, scratch) == 1 { print $2 }' /proc/self/mounts | sort -r)
    if [[ $code -eq 0 ]]; then
        result=passed
        printf 'ok      %-32s %4d s\n' "${test%.sh}" $((SECONDS - started))
        [[ -z ${PANDOFS_TELL:-} ]] || sed 's/^/        /' "$log"
    elif [[ $code -eq 77 ]]; then
        result=skipped
        printf 'skipped %-32s %s\n' "${test%.sh}" "$(tail -n 1 "$log")"
    else
        result=failed
        printf 'FAILED  %-32s %4d s\n' "${test%.sh}" $((SECONDS - started))
        tail -n 60 "$log" | sed 's/^/        /'
        find "$SCRATCH" -xdev -name '*log.txt' -size +0 2>/dev/null | while read -r server_log; do
            echo "        --- the end of ${server_log#"$SCRATCH"/}"
            tail -n 15 "$server_log" | sed 's/^/        /'
        done
    fi >"$RESULTS/$test.told"
    flock "$RESULTS" cat "$RESULTS/$test.told"
    touch "$RESULTS/$test.$result"
    [[ -z ${PANDOFS_TIMES:-} || $result == skipped ]] ||
        printf 'e2e\t%s\t%s\n' $((SECONDS - started)) "${test%.sh}" >>"$PANDOFS_TIMES"
    rm -rf --one-file-system "$SCRATCH"
}

long=() short=()
for test in "${tests[@]}"; do
    if grep -qx '# long' "$test" 2>/dev/null; then
        long+=("$test")
    else
        short+=("$test")
    fi
done
alone=()
for test in "${long[@]}" "${short[@]}"; do
    if grep -q '^# alone: ' "$test" 2>/dev/null; then
        alone+=("$test")
        continue
    fi
    while [[ $(jobs -rp | wc -l) -ge $JOBS ]]; do
        wait -n
    done
    run_test "$test" &
done
wait
for test in "${alone[@]}"; do
    run_test "$test" &
    wait
done

count() {
    find "$RESULTS" -name "*.$1" | wc -l
}
passed=$(count passed)
echo
echo "e2e: $passed passed, $((${#tests[@]} - passed - $(count skipped))) failed, $(count skipped) skipped"
if [[ -n ${PANDOFS_NO_SKIP:-} && $(count skipped) -gt 0 ]]; then
    find "$RESULTS" -name '*.skipped' -printf 'left out, and none was to be: %f\n' | sed 's/\.sh\.skipped$//' | sort
    exit 1
fi
find "$RESULTS" -name '*.failed' -printf 'failed: %f\n' | sed 's/\.sh\.failed$//' | sort
[[ $((passed + $(count skipped))) -eq ${#tests[@]} && $passed -gt 0 ]]
