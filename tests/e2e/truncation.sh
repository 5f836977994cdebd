#!/bin/bash
# A file that one mount writes to is cut by another: whatever comes out is what one order of the calls gives, with
# stripes over all servers; and what was written, and not said to be done with, does not come back as zeros. Also while
# servers are killed one after the other: what is done once more after a crash takes nothing away.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
B=$SCRATCH/mount-2
mount_also "$B"
mkdir "$MNT/striped"
expect "layout set" "$PANDOFS" layout set --unit 64K "$MNT/striped"

expect 'writes and cuts at once' python3 _truncations.py "$MNT/striped" "$B/striped" 20

python3 _truncations.py "$MNT/striped" "$B/striped" 40 >"$SCRATCH/killed" 2>&1 &
cutter=$!
started+=("$cutter")
for ((i = 0; ; i++)); do
    ! has_ended "$cutter" || break
    kill_server $((i % 4))
    sleep 0.5
done
wait_for_end "$cutter"
cat "$SCRATCH/killed"
[[ $CODE -eq 0 ]] || fail "writes and cuts while servers were killed $i times: $CODE"
expect_above 'servers killed' "$i" 5

expect 'umount' "$PANDOFS" umount "$B"
check_online
stop_cluster
