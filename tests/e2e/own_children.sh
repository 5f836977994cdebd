#!/bin/bash
# What a test leaves running ends with it, and nothing else: the id of a process that was waited for may have become that of
# another test's.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# A process that is nobody's child here stands for one that got the id of an earlier child.
(
    sleep 1000 &
    echo "$!" >"$SCRATCH/other"
)
other=$(cat "$SCRATCH/other")
sleep 1000 &
left=$!
sleep 0 &
ended=$!
started=("$other" "$left" "$ended")
wait_for_end "$ended"

stop_what_was_started
has_ended "$left" || fail "process $left, which the test started, lives"
! has_ended "$other" || fail "process $other, which the test did not start, was killed"
kill -KILL "$other"
