#!/bin/bash
# Two mounts of one file system that believe nothing for any time see at once what the other does.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster --entry-timeout 0 --attr-timeout 0 --negative-timeout 0
A=$MNT
B=$SCRATCH/mount-2
mount_also "$B" -o entry_timeout=0,attr_timeout=0,negative_timeout=0
# shellcheck source=tests/e2e/_two_mounts.sh
. ./_two_mounts.sh

expect 'umount' "$PANDOFS" umount "$B"
check_online
stop_cluster
