#!/bin/bash
# Two mounts that cache under leases, as mounts do by default, see at once what the other does. What neither
# changes both know by heart; who does not answer holds nobody up for longer than a lease; and a server that
# is restarted changes nothing before it is safe.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
A=$MNT
B=$SCRATCH/mount-2
mount_also "$B"
# shellcheck source=tests/e2e/_two_mounts.sh
. ./_two_mounts.sh

expect 'umount' "$PANDOFS" umount "$B"
check_online
stop_cluster
