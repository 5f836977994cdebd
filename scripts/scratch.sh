#!/bin/bash
# scratch.sh COMMAND...: runs a command with $TMPDIR on a file system of its own, which is gone afterwards, and ends with the
# command's code: ext4 with a journal, in a file that nothing waits to be written of. Without a journal ext4 looks, for each
# file that it makes, through all inodes that were deleted in the last minutes, which takes 0.9 ms a file where thousands were:
# most of the time of tests that make trees. What a sync means for a disk is tested with disks that the tests bring along
# (tests/e2e/_disk.c, power_cut.sh), and `make test-long` runs where $TMPDIR is.
#
# Who is not root, has no loop device or no room, or sets PANDOFS_OWN_SCRATCH=0, has the command run where $TMPDIR is.
set -uo pipefail

# GiB: the most that the tests get, and the least that they are sent there for.
MOST=32
LEAST=8

above=${TMPDIR:-/tmp}
room=$(df --output=avail --block-size=1G "$above" | tail -n 1)
if [[ $(id -u) -ne 0 || ${PANDOFS_OWN_SCRATCH:-1} == 0 || $room -lt $LEAST ]]; then
    exec "$@"
fi
[[ $room -lt $MOST ]] || room=$MOST

# Short, as are those of scripts/e2e.sh in it: the path of a socket has 107 bytes, and pjdfstest makes some with long names.
folder=$(mktemp -d "$above/pXXXXXX") || exit 1
mounted=
# shellcheck disable=SC2329 # called by a trap
remove() {
    # What a test left behind may still use it.
    [[ -z $mounted ]] || umount "$folder" 2>/dev/null || umount --lazy "$folder"
    rm -f "$folder.img"
    rmdir "$folder"
}
trap remove EXIT
# The shell ends after the command, which gets these as well.
trap : INT TERM

# Directories are listed in an order that depends on the seed: the same in each run.
if truncate --size="${room}G" "$folder.img" &&
    mkfs.ext4 -q -F -m 0 -E hash_seed=0f3a2c64-5d1b-4e88-9a70-6b1c2d3e4f50 "$folder.img" &&
    mount -o loop,discard,nobarrier "$folder.img" "$folder"; then
    mounted=1
    # The loop device has it open for as long as it is needed.
    rm -f "$folder.img"
    rmdir "$folder/lost+found"
    chmod 1777 "$folder"
    TMPDIR=$folder "$@"
else
    echo "scratch: no file system can be made for the tests: they run in $above" >&2
    "$@"
fi
