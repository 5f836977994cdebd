#!/bin/bash
# A file that one mount writes to is cut by another: whatever comes out is what one order of the calls gives, with
# stripes over all servers; and what was written, and not said to be done with, does not come back as zeros.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
B=$SCRATCH/mount-2
mount_also "$B"
mkdir "$MNT/striped"
expect "layout set" "$PANDOFS" layout set --unit 64K "$MNT/striped"

expect 'writes and cuts at once' python3 _cuts.py "$MNT/striped" "$B/striped" 20

expect 'umount' "$PANDOFS" umount "$B"
check_online
stop_cluster
