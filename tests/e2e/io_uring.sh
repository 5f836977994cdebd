#!/bin/bash
# A mount that takes requests from the kernel over io_uring: programs' work on it, more locks that are waited for than it has
# entries of a ring, and its end while requests wait. One that has too few threads goes by /dev/fuse and says why.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SWITCH=/sys/module/fuse/parameters/enable_uring
# Who needs the switch on has this locked; it says whether a test has switched it on (crates/engines/fuse-kernel/tests/enabled).
USERS=/tmp/pandofs-enable-uring.lock
[[ -e $SWITCH ]] || skip 'this kernel has no FUSE over io_uring'
exec 9>>"$USERS"
flock --shared 9
if [[ $(cat "$SWITCH") != Y ]]; then
    { echo Y >"$SWITCH"; } 2>/dev/null || skip "only root may switch on $SWITCH"
    printf on >&9
fi
switch_off() {
    if flock --exclusive --nonblock 9 && [[ -s $USERS ]]; then
        echo N >"$SWITCH"
        : >"$USERS"
    fi
}
trap switch_off EXIT

start_cluster
RING=$SCRATCH/ring
mount_also "$RING" -o io_uring=on
expect_contains 'what the mount says' "$(cat "$RING-log.txt")" 'transport=io_uring'

mkdir "$RING/tree"
for ((i = 0; i < 300; i++)); do
    mkdir -p "$RING/tree/d$((i / 30))"
    head -c $((i * 937 % 90000)) /dev/urandom >"$RING/tree/d$((i / 30))/f$i"
done
tar -C "$RING" -cf "$SCRATCH/tree.tar" tree
mkdir "$RING/unpacked"
tar -C "$RING/unpacked" -xf "$SCRATCH/tree.tar"
expect 'what was unpacked' diff -r "$RING/tree" "$RING/unpacked/tree"
expect 'what another mount sees' diff -r "$RING/tree" "$MNT/unpacked/tree"
git -C "$RING/unpacked" init --quiet
git -C "$RING/unpacked" add .
git -C "$RING/unpacked" -c user.name=t -c user.email=t@example.org commit --quiet -m all
expect 'the repository' git -C "$RING/unpacked" fsck --strict
rm -r "$RING/tree"
head -c 40000000 /dev/urandom >"$SCRATCH/large"
cp "$SCRATCH/large" "$RING/large"
dd if="$SCRATCH/large" of="$RING/direct" bs=4M oflag=direct status=none iflag=fullblock conv=notrunc,fsync 2>/dev/null ||
    cp "$SCRATCH/large" "$RING/direct"
for file in large direct; do
    expect "$file" cmp "$SCRATCH/large" "$RING/$file"
    expect "$file through another mount" cmp "$SCRATCH/large" "$MNT/$file"
done
say 'trees, a repository and large files'

# More than the threads of all processors.
FILES=20
# waits PID: it is in the call of flock().
waits() {
    grep -qs '^73 ' "/proc/$1/syscall"
}
# wait_for_locks: this shell has a lock of each of $FILES files, and a program on one processor waits for each.
wait_for_locks() {
    local i
    held=()
    waiting=()
    for ((i = 0; i < FILES; i++)); do
        exec {fd}>"$RING/lock$i"
        flock "$fd"
        held+=("$fd")
        taskset -c 0 flock "$RING/lock$i" true 9>&- &
        waiting+=("$!")
        started+=("$!")
    done
    for i in "${waiting[@]}"; do
        wait_until "process $i to wait" waits "$i"
    done
}
wait_for_locks
for fd in "${held[@]}"; do
    expect 'an unlock on the same processor' taskset -c 0 flock --unlock "$fd"
    exec {fd}>&-
done
for pid in "${waiting[@]}"; do
    wait_for_end "$pid"
    expect_equal 'a lock that was waited for' "$CODE" 0
done
say "$FILES locks were waited for on one processor, and unlocked there"

wait_for_locks
umount --lazy "$RING"
for fd in "${held[@]}"; do
    # The programs that wait have inherited it.
    flock --unlock "$fd"
    exec {fd}>&-
done
for pid in "${waiting[@]}"; do
    wait_for_end "$pid"
done
wait_for_end "$MOUNT_PID"
expect_equal 'the end of a mount that was taken away' "$CODE" 0
say 'a mount ends that was taken away while locks were waited for'

mount_also "$RING" -o io_uring=on
wait_for_locks
kill -KILL "$MOUNT_PID"
wait_for_end "$MOUNT_PID"
for pid in "${waiting[@]}"; do
    wait_for_end "$pid"
done
for fd in "${held[@]}"; do
    exec {fd}>&-
done
expect_refused 'not connected' stat "$RING/large"
say 'programs go on when a mount is killed'

mount_also "$RING" -o io_uring=auto
expect_contains 'the next mount' "$(cat "$RING-log.txt")" 'transport=io_uring'
expect 'large, anew' cmp "$SCRATCH/large" "$RING/large"
umount "$RING"
wait_for_end "$MOUNT_PID"
mount_also "$RING"
expect_contains 'a mount that was not asked' "$(cat "$RING-log.txt")" 'transport=/dev/fuse'
umount "$RING"
wait_for_end "$MOUNT_PID"
check_online
stop_cluster
say 'ok'
