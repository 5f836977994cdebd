#!/bin/bash
# What POSIX and the Linux man pages promise, call by call: first on ext4, to show that the suite is right; then on a
# mount as it is by default, in directories of which each is spread over servers, on mounts with other options, and on
# two mounts that see what the other does. What is known not to pass there is in a list.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users'
suite=${PANDOFS%/*}/pandofs-posix
[[ -x $suite ]] || fail "$suite is not there: cargo build --release --package pandofs-posix"

# passes WHERE DIRECTORY [OPTION]...: every case does.
passes() {
    local where=$1 dir=$2
    shift 2
    mkdir -p "$dir"
    expect "the suite on $where" "$suite" "$dir" "$@"
    say "the suite on $where"
}

# expect_options POINT OPTION...: it is mounted with these; with none of the others that cases go by.
expect_options() {
    local point=$1 found
    shift
    found=$(findmnt --noheadings --output OPTIONS --mountpoint "$point" | tr , '\n' |
        sed -nE '/^(nosuid|nodev|relatime|no(dir)?atime)$/p' | sort | paste -sd ' ')
    expect_equal "options of $point" "$found" "$*"
}

disk=$SCRATCH/ext4
mkdir "$disk"
truncate --size=1G "$disk.img"
mkfs.ext4 -q -F "$disk.img"
mount -o loop "$disk.img" "$disk" || skip 'no loop device can be mounted here'
passes ext4 "$disk/one"
mount -o remount,strictatime "$disk"
expect_options "$disk"
passes 'ext4 with strictatime' "$disk/one" --only times.
mount -o remount,relatime,nodiratime "$disk"
expect_options "$disk" nodiratime relatime
passes 'ext4 with nodiratime' "$disk/one" --only times.
mount -o remount,diratime,noatime "$disk"
expect_options "$disk" noatime
passes 'ext4 with noatime' "$disk/one" --only times.
# A bind mount is another mount of the same file system, which shares everything.
mkdir "$disk-2"
mount --bind "$disk" "$disk-2"
mkdir "$disk/two"
expect 'the cases of two mounts on ext4' "$suite" "$disk/two" --second-mount "$disk-2/two" --only two.
umount "$disk-2" "$disk"

start_cluster
# All say what they found before the test fails.
failed=0
expect_options "$MNT" nodev nosuid relatime
# The 65,000 links of one file: in a directory that splits most of them wait for the disks of two servers. Nothing else
# makes so many names.
mkdir "$MNT/one"
"$PANDOFS" dir --threshold 100000 "$MNT/one" >/dev/null
(passes 'a mount' "$MNT/one" --known posix-known.txt) || failed=1

# Directories that are in four partitions from the first entry on, and in more beyond 100.
mkdir "$MNT/spread"
"$PANDOFS" dir --partitions 4 --threshold 100 "$MNT/spread" >/dev/null
mkdir "$MNT/spread/probe"
expect_equal 'partitions of a new directory' "$("$PANDOFS" dir --json "$MNT/spread/probe" | jq .partitions)" 4
# What depends on where entries and inodes are. Not the 65,000 links: see above.
families=(readdir. rename unlink. rmdir. mkdir. tmpfile times. utimens xattr sticky chmod. chown.)
(passes 'directories of four partitions' "$MNT/spread" --known posix-known.txt "${families[@]/#/--only=}") || failed=1

# The options of mounts that change what calls do.
third=$SCRATCH/mount-3
mount_also "$third" -o nodiratime
expect_options "$third" nodev nodiratime nosuid relatime
(passes 'a mount with nodiratime' "$third/one" --known posix-known.txt --only times.) || failed=1
expect umount "$PANDOFS" umount "$third"
mount_also "$third" -o noatime
expect_options "$third" noatime nodev nosuid
# What is known not to count there does not have to.
(passes 'a mount with noatime' "$third/one" --only times.) || failed=1
expect umount "$PANDOFS" umount "$third"

# All cases again, with set-user-id bits, device files, and every reading counted; and those of two mounts. None of that
# matters to the 65,000 links, which the first mount has had to make.
second=$SCRATCH/mount-2
mount_also "$second" --cache leases -o suid,dev,strictatime
expect_options "$second"
mount_also "$third" --cache leases
mkdir "$second/two"
"$suite" "$second/two" --second-mount "$third/two" --known posix-known.txt --except link.as_many_as_there_may_be || failed=1
say 'the suite on two mounts'
[[ $failed -eq 0 ]] || fail 'not all cases pass on the mounts'
expect umount "$PANDOFS" umount "$second"
expect umount "$PANDOFS" umount "$third"
check_online
stop_cluster
