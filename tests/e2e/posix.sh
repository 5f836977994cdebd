#!/bin/bash
# What POSIX and the Linux man pages promise, call by call: first on ext4, to show that the suite is right;
# then on a mount as it is by default, and on two of them that see what the other
# does. What is known to fail there is in two lists.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users'
suite=${PANDOFS%/*}/pandofs-posix
[[ -x $suite ]] || fail "$suite is not there: cargo build --release --package pandofs-posix"

# passes WHERE DIRECTORY [OPTION]...: every case does.
passes() {
    local where=$1 dir=$2
    shift 2
    mkdir "$dir"
    expect "the suite on $where" "$suite" "$dir" "$@"
    say "the suite on $where"
}

disk=$SCRATCH/ext4
mkdir "$disk"
truncate --size=1G "$disk.img"
mkfs.ext4 -q -F "$disk.img"
mount -o loop "$disk.img" "$disk" || skip 'no loop device can be mounted here'
passes ext4 "$disk/one"
# A bind mount is another mount of the same file system, which shares everything.
mkdir "$disk-2"
mount --bind "$disk" "$disk-2"
mkdir "$disk/two"
expect 'the cases of two mounts on ext4' "$suite" "$disk/two" --second-mount "$disk-2/two" --only two.
umount "$disk-2" "$disk"

start_cluster
failed=0
(passes 'a mount' "$MNT/one" --known posix-known.txt) || failed=1
mount_also "$SCRATCH/mount-2" --cache leases
mount_also "$SCRATCH/mount-3" --cache leases
mkdir "$SCRATCH/mount-2/two"
"$suite" "$SCRATCH/mount-2/two" --second-mount "$SCRATCH/mount-3/two" --known posix-known-two.txt || failed=1
say 'the suite on two mounts'
# Both say all that they found before the test fails.
[[ $failed -eq 0 ]] || fail 'not all cases pass on the mounts'
expect umount "$PANDOFS" umount "$SCRATCH/mount-2"
expect umount "$PANDOFS" umount "$SCRATCH/mount-3"
check_online
stop_cluster
