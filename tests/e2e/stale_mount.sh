#!/bin/bash
# Mounts whose process was killed, that are in use, or whose servers are away: each is taken away or
# brought back with a word about it, and none keeps a command from ending.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SECOND=$SCRATCH/mount-2

kill_second() {
    kill -KILL "$MOUNT_PID"
    wait_for_end "$MOUNT_PID"
}

holds_hello() {
    [[ $(cat "$1/file" 2>/dev/null) == hello ]]
}

start_cluster
echo hello >"$MNT/file"

# 1. The mount of `up` is killed: `up` brings it back.
killed=$(cat "$DATA/mount.pid")
kill -KILL "$killed"
wait_until 'the mount to be back' holds_hello "$MNT"
[[ $(cat "$DATA/mount.pid") != "$killed" ]] || fail 'the mount has the same process'
expect_contains 'what up said' "$(cat "$UP_OUTPUT")" "the mount (pid $killed) was killed by signal 9"
expect_contains 'the log of the mount' "$(cat "$DATA/mount-log.txt")" \
    "unmounted what a killed mount had left on $MNT"
say 'the mount of up was killed and came back'

# 2. One that was mounted by hand: mounting again takes the dead one away.
mount_also "$SECOND"
expect_equal 'what the second mount has' "$(cat "$SECOND/file")" hello
kill_second
expect_refused 'Transport endpoint is not connected' cat "$SECOND/file"
mount_also "$SECOND"
expect_equal 'what it has after it was killed' "$(cat "$SECOND/file")" hello
expect_contains 'its log' "$(cat "$SECOND-log.txt")" \
    "unmounted what a killed mount had left on $SECOND"
expect_equal 'mounts there' "$(grep -c " $SECOND " /proc/self/mounts)" 1
expect_refused "a PandoFS is mounted on $SECOND already" "$PANDOFS" mount --data "$DATA" "$SECOND"
say 'a dead mount was taken away by mounting again'

# 3. So does unmounting; and then nothing is mounted there.
kill_second
expect_contains 'umount of a dead mount' "$("$PANDOFS" umount "$SECOND" 2>&1)" \
    "its process was gone already; unmounted $SECOND"
expect_refused "nothing is mounted on $SECOND" "$PANDOFS" umount "$SECOND"
expect_refused 'is no PandoFS but of type proc' "$PANDOFS" umount /proc
say 'a dead mount was taken away by unmounting'

# In the background: mounted when the command returns, its process gone when umount does.
"$PANDOFS" mount --data "$DATA" --background "$SECOND"
expect_equal 'what a mount in the background has' "$(cat "$SECOND/file")" hello
pgrep -f "^$PANDOFS mount .*$SECOND\$" >/dev/null || fail 'its process cannot be found'
"$PANDOFS" umount "$SECOND"
! pgrep -f "^$PANDOFS mount .*$SECOND\$" || fail 'its process is still there'
say 'a mount in the background came and went'

# 4. One that is in use says by whom; lazily it goes, and its user is not disturbed.
mount_also "$SECOND"
sleep 1000 <"$SECOND/file" &
user=$!
started+=("$user")
is_open() {
    readlink /proc/"$1"/fd/* 2>/dev/null | grep -q "^$2\$"
}
wait_until 'the file to be open' is_open "$user" "$SECOND/file"
expect_refused "is in use by sleep ($user)" "$PANDOFS" umount "$SECOND"
exec {open}<"$SECOND/file"
"$PANDOFS" umount --lazy "$SECOND"
! is_mounted "$SECOND" || fail 'it is still mounted'
expect_equal 'what its user reads' "$(cat <&"$open")" hello
exec {open}<&-
kill "$user"
wait_until 'the mount to end with its last user' has_ended "$MOUNT_PID"
say 'a mount in use was left alone, and taken away lazily'

# 5. Places that nothing can be mounted on.
expect_refused 'make the directory first' "$PANDOFS" mount --data "$DATA" "$SCRATCH/nowhere"
touch "$SCRATCH/plain"
expect_refused 'is no directory' "$PANDOFS" mount --data "$DATA" "$SCRATCH/plain"
mkdir "$SCRATCH/full"
touch "$SCRATCH/full/precious"
# What the mount itself needs: another copy of the map, so that a mount does no harm if it is not refused.
mkdir -p "$SCRATCH/maps/here"
cp "$DATA/cluster.json" "$SCRATCH/maps/here/"
for above in "$SCRATCH/maps/here" "$SCRATCH/maps"; do
    expect_refused 'would hide the cluster map' \
        timeout "$PATIENCE" "$PANDOFS" mount --cluster "$SCRATCH/maps/here/cluster.json" "$above"
done
expect_refused 'is not empty' "$PANDOFS" up --data "$SCRATCH/other" --mount "$SCRATCH/full"
[[ ! -e $SCRATCH/other/cluster.json ]] || fail "a cluster was made that could not be mounted"
expect_refused "there is $SCRATCH/full/precious, which belongs to no cluster" "$PANDOFS" up --data "$SCRATCH/full" --no-mount
expect_equal 'what is in a directory of somebody else' "$(ls "$SCRATCH/full")" precious
say 'what cannot be mounted on was refused'

# 6. The servers go away, and a mount stays: nobody waits for them who only wants to be rid of it.
mount_also "$SECOND"
kill -INT "$UP"
wait_for_end "$UP"
expect_equal 'the exit code of up' "$CODE" 0
expect_refused "a PandoFS is mounted on $SECOND already" \
    timeout "$PATIENCE" "$PANDOFS" mount --data "$DATA" "$SECOND"
expect 'umount while the servers are away' timeout "$PATIENCE" "$PANDOFS" umount "$SECOND"
expect 'the end of its process' has_ended "$MOUNT_PID"
say 'a mount without its servers was unmounted'

# The same while a program waits for them: whoever ends the mount sets it free, with an error.
start_cluster
mount_also "$SECOND" -o attr_timeout=0,entry_timeout=0
kill -INT "$UP"
wait_for_end "$UP"
cat "$SECOND/file" >"$SCRATCH/said" 2>&1 &
waiting=$!
started+=("$waiting")
has_noticed() {
    grep -q 'does not answer: waiting' "$SECOND-log.txt"
}
wait_until 'the mount to notice' has_noticed
expect_refused 'is in use by' timeout "$PATIENCE" "$PANDOFS" umount "$SECOND"
kill -TERM "$MOUNT_PID"
wait_until 'the mount to end' has_ended "$MOUNT_PID"
wait_for_end "$waiting"
[[ $CODE -ne 0 ]] || fail "the program that waited got '$(cat "$SCRATCH/said")'"
! is_mounted "$SECOND" || fail 'it is still mounted'
say "a program that waited for servers was told: $(cat "$SCRATCH/said")"

# 7. `up` and its mount are killed together, so that nobody unmounts: the next `up` does.
start_cluster
kill -STOP "$UP"
pid=$(cat "$DATA/mount.pid")
kill -KILL "$pid"
wait_until 'the end of the mount' has_ended "$pid"
kill_cluster
expect_refused 'Transport endpoint is not connected' cat "$MNT/file"
start_cluster
expect_contains 'what up said' "$(cat "$UP_OUTPUT")" "unmounted what a killed mount had left on $MNT"
expect_equal 'what is there' "$(cat "$MNT/file")" hello
expect_equal 'mounts there' "$(grep -c " $MNT " /proc/self/mounts)" 1
say 'the next up took a dead mount away'
stop_cluster
