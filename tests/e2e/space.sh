#!/bin/bash
# Space: what du says of a file is what its data objects take, with holes, space in advance and pieces cut out; what df
# says is what the servers' disk has left, and all that a removed file had comes back.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can give the servers a disk of their own'
MIB=$((1 << 20))

# The servers' own ext4, so that nobody else takes any of it.
truncate --size=1G "$SCRATCH/disk"
mkfs.ext4 -q -m 0 "$SCRATCH/disk"
mkdir -p "$DATA"
mount -o loop "$SCRATCH/disk" "$DATA" 2>/dev/null || skip 'there is no loop device'

# taken FILE: bytes that it takes, by stat.
taken() {
    echo $(($(stat -c '%b * %B' "$MNT/$1")))
}

# stored FILE: bytes that its data objects take on the servers' disk.
stored() {
    local ino sum=0 object
    ino=$(printf '%016x' "$(stat -c %i "$MNT/$1")")
    for object in "$DATA"/server-*/data/data/"${ino: -2}"/"$ino"; do
        [[ ! -e $object ]] || sum=$((sum + $(stat -c '%b * %B' "$object")))
    done
    echo $sum
}

# free: bytes that df says are free.
free() {
    echo $(($(stat -f -c '%f * %S' "$MNT")))
}

# is_back FREE: as much is free as was then, but for what the servers' logs and stores took since.
is_back() {
    sync --file-system "$DATA"
    [[ $(free) -ge $(($1 - 16 * MIB)) ]]
}

# same WHAT FILE BYTES: stat, du and the servers' disk agree on that many, within what the disk takes for itself.
same() {
    local taken stored du
    taken=$(taken "$2")
    stored=$(stored "$2")
    du=$(du --block-size=1 "$MNT/$2" | cut -f 1)
    expect_equal "$1: du and stat" "$du" "$taken"
    # The objects of what has no holes are not asked for; they take whole blocks, and ext4 a few for itself.
    [[ $((taken - stored)) -le 65536 && $((stored - taken)) -le 65536 ]] || fail "$1: stat says $taken, stored are $stored"
    [[ $((taken - $3)) -le 131072 && $(($3 - taken)) -le 131072 ]] || fail "$1: it takes $taken, not $3"
}

start_cluster
before=$(free)
expect_equal 'the size of the disk' "$(stat -f -c '%b' "$MNT")" "$(stat -f -c '%b' "$DATA")"
expect_equal 'what is free of it' "$((($(free) - $(stat -f -c '%f * %S' "$DATA")) / (4 * MIB)))" 0

head -c $((40 * MIB)) /dev/urandom >"$MNT/full"
sync "$MNT/full"
same 'a file without holes' full $((40 * MIB))
sync --file-system "$DATA"
used=$((before - $(free)))
[[ $used -ge $((40 * MIB)) && $used -le $((60 * MIB)) ]] || fail "40 MiB were written, and df says that $used bytes were"

# Holes: beyond the end, cut out, and by truncation.
truncate --size=1G "$MNT/holes"
same 'a file that is one hole' holes 0
for place in 0 100 501; do
    head -c $((2 * MIB)) /dev/urandom | dd of="$MNT/holes" bs=1M seek=$place conv=notrunc,fsync iflag=fullblock status=none
done
same 'a file with holes' holes $((6 * MIB))
fallocate --punch-hole --offset $((100 * MIB)) --length $((2 * MIB)) "$MNT/holes"
same 'a hole was made' holes $((4 * MIB))
fallocate --dig-holes "$MNT/holes"
same 'holes were looked for' holes $((4 * MIB))
truncate --size=$((500 * MIB)) "$MNT/holes"
same 'it was cut' holes $((2 * MIB))
truncate --size=1G "$MNT/holes"
same 'it was made longer' holes $((2 * MIB))
expect_equal 'its size' "$(stat -c %s "$MNT/holes")" $((1024 * MIB))
say 'holes take nothing'

# Space in advance, within the size and beyond it.
fallocate --length $((30 * MIB)) "$MNT/ahead"
same 'space was had' ahead $((30 * MIB))
fallocate --keep-size --offset $((30 * MIB)) --length $((20 * MIB)) "$MNT/ahead"
same 'space was had beyond the end' ahead $((50 * MIB))
expect_equal 'its size' "$(stat -c %s "$MNT/ahead")" $((30 * MIB))
head -c $((30 * MIB)) /dev/urandom | dd of="$MNT/ahead" bs=1M conv=notrunc,fsync iflag=fullblock status=none
same 'space was written to' ahead $((50 * MIB))
truncate --size=$((30 * MIB)) "$MNT/ahead"
same 'the rest was given back' ahead $((30 * MIB))
say 'space in advance counts'

# The whole tree, as another mount has it.
mkdir "$MNT/dir"
for number in 1 2 3 4 5 6 7 8; do
    head -c $((number * 3000)) /dev/urandom >"$MNT/dir/$number"
done
sync --file-system "$DATA"
SECOND=$SCRATCH/second
mount_also "$SECOND"
expect_equal 'du on another mount' "$(du --block-size=1 "$SECOND" | sort)" \
    "$(du --block-size=1 "$MNT" | sed "s|$MNT|$SECOND|" | sort)"
expect_equal 'pandofs du' "$("$PANDOFS" du -s "$MNT" | cut -f 1)" "$(du -sk "$MNT" | cut -f 1)"
detach "$SECOND"

# Removed, also while it is open, and what somebody has open without a name.
exec 9<"$MNT/full"
rm "$MNT/full" "$MNT/holes" "$MNT/ahead"
wait_until 'what nobody has open to be free' is_back $((before - 40 * MIB))
if is_back "$before"; then fail 'the space of an open file is free'; fi
exec 9<&-
wait_until 'the rest to be free' is_back "$before"
check_online
stop_cluster
umount "$DATA"
