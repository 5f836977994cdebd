#!/bin/bash
# A mount is killed while the kernel and a program keep each other waiting over it: a program that renames holds the locks of
# two directories and waits for a server that stands still, and the mount's thread that takes a name back waits in the kernel
# for one of them, where no signal reaches it, and keeps the connection open. What comes next sets both free: `umount`,
# mounting again, and the `up` that watches over the mount.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $EUID -eq 0 ]] || skip 'only root sees where threads wait in the kernel'

OTHER=$SCRATCH/other
KILLED=$SCRATCH/killed

server_of() {
    "$PANDOFS" dir --json "$MNT/$1" | jq '.parts[0].server'
}

# A thread of the process waits for a directory's lock to take a name back.
waits_for_lock() {
    cat "/proc/$1"/task/*/stack 2>/dev/null | grep -q fuse_reverse_inval_entry
}

# keep_waiting PID POINT: until the mount's thread and a program keep each other waiting. A name is believed for half a second,
# within which it has to be taken back, so it may take some attempts; the program's last one has a process of its own: $program.
keep_waiting() {
    local pid=$1 point=$2 attempt=0 deadline=$((SECONDS + PATIENCE)) looks
    while [[ $SECONDS -lt $deadline ]]; do
        attempt=$((attempt + 1))
        : >"$MNT/first/from-$pid-$attempt"
        stat "$point/second" "$OTHER/first" >/dev/null
        kill -STOP "$stopped"
        # There is no such name yet; the kernel believes that.
        ! stat "$point/first/made-$pid-$attempt" >/dev/null 2>&1 || fail 'it is there already'
        # Not mv, which asks for the new name before it renames, and waits for that.
        perl -e 'rename $ARGV[0], $ARGV[1]' "$point/first/from-$pid-$attempt" "$point/second/to-$pid-$attempt" &
        program=$!
        started+=("$program")
        touch "$OTHER/first/made-$pid-$attempt" &
        maker=$!
        started+=("$maker")
        for ((looks = 0; looks < 20; looks++)); do
            ! waits_for_lock "$pid" || return 0
            sleep 0.02
        done
        kill -CONT "$stopped"
        wait_until 'the renaming to end' has_ended "$program"
    done
    fail "the mount's thread did not wait for the program's lock in $attempt attempts"
}

start_cluster
mount_also "$OTHER"
mkdir "$MNT/first"
for ((number = 0; number < 64; number++)); do
    mkdir "$MNT/second"
    [[ $(server_of first) -eq $(server_of second) ]] || break
    rmdir "$MNT/second"
done
stopped=$(server_pid "$(server_of second)")

expect_freed() {
    wait_until 'the end of the program' has_ended "$program"
    wait_until 'the end of the killed mount' has_ended "$1"
    kill -CONT "$stopped"
    # Once the lease of the killed mount is over.
    wait_until 'the end of the other program' has_ended "$maker"
}

mount_also "$KILLED"
killed=$MOUNT_PID
keep_waiting "$killed" "$KILLED"
kill -KILL "$killed"
expect_contains 'umount of it' "$(timeout "$PATIENCE" "$PANDOFS" umount "$KILLED" 2>&1)" \
    "its process was gone already; unmounted $KILLED"
expect_freed "$killed"
say 'unmounting set the program free'

mount_also "$KILLED"
killed=$MOUNT_PID
keep_waiting "$killed" "$KILLED"
kill -KILL "$killed"
# Its new process serves once the server is there.
timeout "$PATIENCE" "$PANDOFS" mount --data "$DATA" "$KILLED" >"$KILLED-log.txt" 2>&1 &
again=$!
started+=("$again")
expect_freed "$killed"
wait_until 'the new mount' has_mounted_or_ended "$KILLED" "$again"
expect_contains 'its log' "$(cat "$KILLED-log.txt")" "unmounted what a killed mount had left on $KILLED"
"$PANDOFS" umount "$KILLED"
say 'mounting again set the program free'

killed=$(cat "$DATA/mount.pid")
keep_waiting "$killed" "$MNT"
kill -KILL "$killed"
expect_freed "$killed"
is_back() {
    [[ -e $MNT/first ]]
}
wait_until 'the mount of up to be back' is_back
say 'up set the program free'
"$PANDOFS" umount "$OTHER"
stop_cluster
