#!/bin/bash
# One server of four has a small disk, which becomes full: what needs space there is refused, what was
# acknowledged is whole, everything else goes on, and with space it all goes on.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $EUID -eq 0 ]] || skip 'only root may mount a small disk'
command -v mkfs.ext4 >/dev/null || skip 'mkfs.ext4 is missing'

MIB=$((1 << 20))
DISK=$DATA/server-1
IMAGE=$SCRATCH/disk.img

free_bytes() {
    stat --file-system --format='%a %S' "$DISK" | awk '{ printf "%d\n", $1 * $2 }'
}

# runs_out COMMAND...: it fails, and says that there is no space.
runs_out() {
    expect_refused 'No space left on device' "$@"
}

start_cluster --policy random --stripe-unit 65536
stop_cluster
truncate --size=96M "$IMAGE"
mkfs.ext4 -q -m 0 "$IMAGE"
mkdir "$SCRATCH/disk"
mount -o loop "$IMAGE" "$SCRATCH/disk" 2>/dev/null || skip 'there are no loop devices'
cp -a "$DISK/." "$SCRATCH/disk"
umount "$SCRATCH/disk"
mount -o loop "$IMAGE" "$DISK"
# A quarter of a disk this small.
reserve=$(($(stat --file-system --format='%b' "$DISK") * $(stat --file-system --format='%S' "$DISK") / 4))
start_cluster
server=$(server_pid 1)
say "of a disk with $(free_bytes) free bytes $reserve are kept back"

# Directories on every server, and files in them.
for ((i = 0; i < 24; i++)); do
    mkdir "$MNT/$i"
    echo "$i" >"$MNT/$i/small"
    touch "$MNT/$i/empty"
done
here=()
elsewhere=()
for ((i = 0; i < 24; i++)); do
    home=$("$PANDOFS" dir --json "$MNT/$i" | jq '.parts[0].server')
    if [[ $home -eq 1 ]]; then here+=("$i"); else elsewhere+=("$i"); fi
done
[[ ${#here[@]} -gt 0 && ${#elsewhere[@]} -gt 0 ]] || fail "the directories are all on one side: ${here[*]}"
head -c $((2 * MIB)) /dev/urandom >"$MNT/before"
fallocate --length $((8 * MIB)) "$MNT/prepared"

# 1. More than there is: refused before anything is taken.
before=$(free_bytes)
runs_out fallocate --length 100G "$MNT/too-large"
runs_out fallocate --length $((4 * (before - reserve / 2))) "$MNT/too-large"
expect_above 'free bytes after it' "$(free_bytes)" $((before - MIB))
rm "$MNT/too-large"

# 2. Until the disk is full.
mkdir "$MNT/fill"
count=0
while head -c $((4 * MIB)) /dev/urandom >"$SCRATCH/piece" && cp "$SCRATCH/piece" "$MNT/fill/$count" 2>"$SCRATCH/error"; do
    sha256sum <"$SCRATCH/piece" >"$SCRATCH/sum-$count"
    count=$((count + 1))
    expect_below 'files that fit' "$count" 100
done
expect_contains 'what cp said' "$(cat "$SCRATCH/error")" 'No space left on device'
rm -f "$MNT/fill/$count"
# The rest, in smaller pieces.
piece=0
while head -c $((64 << 10)) /dev/urandom >"$SCRATCH/piece" && cp "$SCRATCH/piece" "$MNT/fill/piece-$piece" 2>/dev/null; do
    piece=$((piece + 1))
done
say "$count files and $piece pieces fit; $(free_bytes) bytes are free"
expect_above 'free bytes of a full disk' "$(free_bytes)" $((reserve * 3 / 4))
expect_above 'files that fit' "$count" 20
check_files() {
    for ((i = 0; i < count; i++)); do
        expect_equal "file $i" "$(sha256sum <"$MNT/fill/$i")" "$(cat "$SCRATCH/sum-$i")"
    done
}
check_files
expect_equal 'available to programs on that server' "$("$PANDOFS" status --data "$DATA" --json | jq '.servers[1].pid')" "$server"

# 3. Names: refused there, made elsewhere.
refused_here() {
    local number
    for ((number = 0; number < 2000; number++)); do
        if ! ln -s target "$MNT/${here[0]}/link-$number" 2>"$SCRATCH/error"; then
            grep -q 'No space left on device' "$SCRATCH/error"
            return
        fi
    done
    return 1
}
expect 'names on a full disk run out' refused_here
runs_out mkdir "$MNT/${here[0]}/new"
runs_out ln "$MNT/${here[0]}/small" "$MNT/${here[0]}/linked"
for i in "${elsewhere[@]}"; do
    echo new >"$MNT/$i/new"
    expect_equal "$i/new" "$(cat "$MNT/$i/new")" new
done
say 'names were refused on the full server and made on the others'

# 4. What needs nothing, or has it already.
dd if=/dev/zero of="$MNT/prepared" bs=1M count=8 conv=notrunc,fsync status=none
head -c $((2 * MIB)) /dev/urandom >"$SCRATCH/other"
dd if="$SCRATCH/other" of="$MNT/before" bs=64K conv=notrunc,fsync status=none
expect 'a file that was written over' cmp "$SCRATCH/other" "$MNT/before"
for i in "${here[@]}"; do
    expect_equal "$i/small" "$(cat "$MNT/$i/small")" "$i"
    chmod 600 "$MNT/$i/small"
    mv "$MNT/$i/small" "$MNT/$i/moved"
    truncate --size=1 "$MNT/$i/moved"
    rm "$MNT/$i/empty"
done
runs_out fallocate --length $((16 * MIB)) "$MNT/prepared"
expect_above 'free bytes' "$(free_bytes)" $((reserve * 3 / 4))
expect_equal 'the process of the server' "$(server_pid 1)" "$server"
check_online

# 5. Room again.
rm -f "$MNT"/fill/piece-* "$MNT"/fill/[0-4]
can_write() {
    cp "$SCRATCH/other" "$MNT/after" 2>/dev/null
}
wait_until 'room for data' can_write
expect 'what was written then' cmp "$SCRATCH/other" "$MNT/after"
can_make() {
    touch "$MNT/${here[0]}/after" 2>/dev/null
}
wait_until 'room for names' can_make
for ((i = 0; i < 5; i++)); do
    sha256sum </dev/null >"$SCRATCH/sum-$i"
    : >"$MNT/fill/$i"
done
check_files
expect_equal 'the process of the server' "$(server_pid 1)" "$server"
grep -q 'no room for data' "$DISK/log.txt" || fail 'the log does not say that there was no room'
grep -q 'there is room for data again' "$DISK/log.txt" || fail 'the log does not say that there is room again'
check_online

# 6. Somebody else takes the very last of the disk: the server cannot write its log. It goes on when that
# is over, and so do those who waited for it.
others=$DISK/somebody-else
fallocate --length "$(free_bytes)" "$others" 2>/dev/null || true
dd if=/dev/zero of="$DISK/and-the-rest" bs=4k status=none 2>/dev/null || true
expect_below 'free bytes' "$(free_bytes)" 4097
(
    for ((i = 0; i < 20000; i++)); do
        chmod "$((600 + i % 2 * 40))" "$MNT/${here[0]}/moved"
        [[ ! -e $SCRATCH/enough ]] || exit 0
    done
    exit 3
) 2>"$SCRATCH/error" &
changing=$!
started+=("$changing")
has_restarted() {
    [[ $(server_pid 1) != "$server" ]]
}
wait_until 'the server to find that it cannot write its log' has_restarted
touch "$SCRATCH/enough"
expect 'somebody who waits' kill -0 "$changing"
rm "$others" "$DISK/and-the-rest"
wait_for_end "$changing"
expect_equal 'who waited for the server' "$CODE $(cat "$SCRATCH/error")" '0 '
wait_until 'all servers to answer' all_servers_answer
check_files
check_online
stop_cluster
