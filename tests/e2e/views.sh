#!/bin/bash
# What people and programs look at: a watch ends when nobody reads it, a path is looked for on its own file
# system, df counts a disk once, and what cannot be made leaves nothing behind.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster --servers 2
code=0
timeout "$PATIENCE" bash -o pipefail -c '"$0" status --data "$1" --watch | sed -n 1q' "$PANDOFS" "$DATA" || code=$?
expect_equal 'the exit code of a watch that nobody reads' "$code" 0

other=$SCRATCH/other
"$PANDOFS" up --servers 2 --no-mount --data "$other" -- true 2>/dev/null
expect_refused 'another one was named' "$PANDOFS" dir --data "$other" --threshold 100 "$MNT"
expect_refused 'is not on a PandoFS' "$PANDOFS" dir "$SCRATCH"
expect 'the directory of a mount, of the file system that is named' "$PANDOFS" dir --data "$DATA" "$MNT"

# Both servers are on one disk.
expect_equal 'the size of the disk' "$(df --output=size "$MNT" | tail -n 1)" "$(df --output=size "$DATA" | tail -n 1)"
stop_cluster

for options in '--servers 0' '--servers 100000' '--shards 3' '--threshold 0' '--stripe-unit 1000'; do
    none=$SCRATCH/none
    # shellcheck disable=SC2086 # Two words.
    if "$PANDOFS" up --data "$none" --no-mount $options -- true 2>"$SCRATCH/said"; then
        fail "up $options succeeded"
    fi
    [[ ! -e $none ]] || fail "up $options was refused and left $none: $(ls -A "$none")"
    say "up $options: $(head -n 1 "$SCRATCH/said")"
done
