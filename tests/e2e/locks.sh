#!/bin/bash
# Locks of flock() and fcntl() hold among two mounts: nobody is let in beside another one, who waits is let
# in when it is time, whatever is killed meanwhile, and what was written under a lock is read under it.
# PANDOFS_RUNS=N makes the counters count N times as far.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

A=$SCRATCH/mnt
B=$SCRATCH/mount-2
C=$SCRATCH/mount-3
LOCAL=$SCRATCH/mount-4

# program NAME FILE: a program that takes commands (see _lock.pl).
declare -A to from pid_of
program() {
    local name=$1 in=$SCRATCH/$1.in out=$SCRATCH/$1.out fd
    rm -f "$in" "$out"
    mkfifo "$in" "$out"
    perl ./_lock.pl script "$2" <"$in" >"$out" 2>"$SCRATCH/$name-log.txt" &
    pid_of[$name]=$!
    started+=("$!")
    exec {fd}>"$in"
    to[$name]=$fd
    exec {fd}<"$out"
    from[$name]=$fd
}

# begin NAME COMMAND...: has a program do something and does not wait for it.
begin() {
    local name=$1
    shift
    echo "$*" >&"${to[$name]}"
}

# answer NAME WANTED
answer() {
    local said=nothing
    read -r -t "$PATIENCE" said <&"${from[$1]}" || true
    expect_equal "what $1 was told" "$said" "$2"
}

# has_answered NAME: whether it has something to say.
has_answered() {
    read -r -t 0 <&"${from[$1]}"
}

# tell NAME WANTED COMMAND...
tell() {
    local name=$1 wanted=$2
    shift 2
    begin "$name" "$@"
    answer "$name" "$wanted"
}

end() {
    local fd
    for name in "$@"; do
        # Not by closing its input: the others have inherited that.
        begin "$name" quit
        wait_for_end "${pid_of[$name]}"
        fd=${to[$name]}
        exec {fd}>&-
        fd=${from[$name]}
        exec {fd}<&-
    done
}

# Of all servers together.
sum() {
    "$PANDOFS" status --data "$DATA" --json | jq "[.servers[].$1 // 0] | add"
}

is_sum() {
    [[ $(sum "$1") -eq $2 ]]
}

# can_be_locked FILE RANGE: whether nobody has it locked.
can_be_locked() {
    [[ $(perl ./_lock.pl try posix "$1" "$2") == ok ]]
}

start_cluster --threshold 100
mount_also "$B"
second_mount=$MOUNT_PID

# 1. Nobody is let in beside another one: programs on both mounts count up one number.
times=$((40 * ${PANDOFS_RUNS:-1}))
for kind in flock posix ofd; do
    printf '%020d' 0 >"$A/counter"
    counting=()
    for ((i = 0; i < 6; i++)); do
        for mount in "$A" "$B"; do
            perl ./_lock.pl count "$kind" "$mount/counter" "$times" &
            counting+=("$!")
            started+=("$!")
        done
    done
    for pid in "${counting[@]}"; do
        wait_for_end "$pid"
        expect_equal "how a counter under $kind ended" "$CODE" 0
    done
    counted=$(cat "$B/counter")
    expect_equal "the number counted under $kind" "$((10#$counted))" $((12 * times))
    say "12 programs counted to $((12 * times)) under $kind"
done

# 2. Ranges, kinds, and who is in the way.
program a "$A/counter"
program b "$B/counter"
tell a ok lock posix 0:10
tell b busy lock posix 5:10
tell b busy lock sposix 9:1
tell b ok lock posix 10:10
tell b "exclusive 0:10 ${pid_of[a]}" holder 0:0
tell a "exclusive 10:10 ${pid_of[b]}" holder 0:0
tell a nobody holder 20:0
tell a ok lock flock
tell b busy lock sflock
tell a ok lock sflock
tell b ok lock sflock
tell a busy lock flock
tell a ok unlock flock
tell b ok unlock flock
# What lies in the middle is unlocked, and the ends stay.
tell a ok lock posix 100:100
tell a ok unlock posix 120:10
tell b ok lock posix 120:10
tell b busy lock posix 119:1
tell b busy lock posix 130:1
tell b "exclusive 100:20 ${pid_of[a]}" holder 100:0
tell b ok lock posix 9223372036854775800:0
tell a busy lock posix 9223372036854775807:1
# Closing any of its descriptors of the file unlocks what a process has; not what an open file has.
tell a ok lock ofd 1000:1
tell a ok open
tell a ok close 1
tell b ok lock posix 0:120
tell b busy lock posix 1000:1
tell a ok close 0
wait_until 'the closed file to be unlocked' can_be_locked "$B/counter" 1000:1
end a b
wait_until 'all to be unlocked at the end' is_sum locks 0
say 'ranges, kinds, holders, closing'

# 3. Who waits is let in; deadlocks; signals.
program a "$A/counter"
program b "$B/counter"
tell a ok lock posix 0:1
begin b wait posix 0:1
wait_until 'somebody to wait' is_sum lock_waiters 1
tell a ok unlock posix 0:1
answer b ok
tell a ok lock posix 1:1
begin b wait posix 1:1
wait_until 'somebody to wait' is_sum lock_waiters 1
tell a deadlock wait posix 0:1
tell a ok unlock posix 1:1
answer b ok
# A signal ends the waiting.
begin a wait posix 0:1
wait_until 'somebody to wait' is_sum lock_waiters 1
kill -USR1 "${pid_of[a]}"
answer a interrupted
expect_equal 'who waits after a signal' "$(sum lock_waiters)" 0
tell b ok unlock posix 0:0
tell a ok lock posix 0:1
# A program that waits can be killed, and is not let in later.
begin b wait posix 0:1
wait_until 'somebody to wait' is_sum lock_waiters 1
kill -KILL "${pid_of[b]}"
wait_for_end "${pid_of[b]}"
wait_until 'nobody to wait any more' is_sum lock_waiters 0
tell a ok unlock posix 0:0
expect_equal 'locks after both are gone' "$(sum locks)" 0
end a
say 'waiting, deadlocks, signals'

# 4. More programs wait than the mount has threads, and who unlocks gets through.
program a "$A/counter"
tell a ok lock flock
waiting=()
for ((i = 0; i < 40; i++)); do
    perl ./_lock.pl hold flock "$A/counter" </dev/null >/dev/null &
    waiting+=("$!")
    started+=("$!")
done
wait_until '40 programs to wait' is_sum lock_waiters 40
tell a ok unlock flock
for pid in "${waiting[@]}"; do
    wait_for_end "$pid"
    expect_equal 'how a program that waited ended' "$CODE" 0
done
end a
say '40 programs waited on a mount of 16 threads'

# 5. A file that is removed stays locked for whom has it open.
echo removed >"$A/removed"
program a "$A/removed"
program b "$B/removed"
tell a ok lock posix 0:5
# Both have opened it when they answer.
tell b busy lock posix 0:1
rm "$B/removed"
tell b busy lock posix 4:1
begin b wait posix 4:1
wait_until 'somebody to wait for the removed file' is_sum lock_waiters 1
tell a ok unlock posix 0:5
answer b ok
end a b
say 'a removed file'

# 6. Files move to other servers while they are locked and waited for.
mkdir "$A/grows"
names=()
for ((i = 0; i < 24; i++)); do
    names+=("file-$i")
    echo "$i" >"$A/grows/file-$i"
done
for name in "${names[@]}"; do
    program "h$name" "$A/grows/$name"
    program "w$name" "$B/grows/$name"
    tell "h$name" ok lock posix 0:0
    begin "w$name" wait posix 0:0
done
wait_until 'all to wait' is_sum lock_waiters 24
for ((i = 0; i < 1000; i++)); do
    : >"$A/grows/more-$i"
done
partitions_spread() {
    [[ $("$PANDOFS" dir --json "$A/grows" | jq .partitions) -ge 4 ]]
}
wait_until "'grows' to be in several partitions" partitions_spread
for name in "${names[@]}"; do
    ! has_answered "w$name" || fail "somebody was let in to $name, which is locked"
    tell "h$name" ok write "written under the lock of $name"
    tell "h$name" ok unlock posix 0:0
    answer "w$name" ok
    expect_equal "what was written to $name" "$(cat "$B/grows/$name")" "written under the lock of $name"
    tell "h$name" busy lock posix 0:0
done
for name in "${names[@]}"; do
    end "h$name" "w$name"
done
wait_until 'all to be unlocked' is_sum locks 0
say "24 files moved with $("$PANDOFS" dir --json "$A/grows" | jq .partitions) partitions while they were locked"

# 7. Every server is killed and started again, with locks that are held and waited for.
for ((i = 0; i < 12; i++)); do
    mkdir "$A/dir-$i"
    echo "$i" >"$A/dir-$i/file"
    program "h$i" "$A/dir-$i/file"
    program "w$i" "$B/dir-$i/file"
    tell "h$i" ok lock posix 0:10
    tell "h$i" ok lock flock
    begin "w$i" wait flock
done
wait_until 'all to wait' is_sum lock_waiters 12
for server in 0 1 2 3; do
    killed=$(server_pid "$server")
    kill -KILL "$killed"
    wait_until "the end of server $server" has_ended "$killed"
done
for ((i = 0; i < 12; i++)); do
    # It waits until the server knows who has what.
    expect_equal "another one who wants file $i" "$(perl ./_lock.pl try posix "$B/dir-$i/file" 0:1)" busy
    ! has_answered "w$i" || fail "somebody was let in to file $i, which is locked"
done
wait_until 'all to wait again' is_sum lock_waiters 12
expect_equal 'locks after all servers were killed' "$(sum locks)" 24
for ((i = 0; i < 12; i++)); do
    tell "h$i" ok unlock flock
    answer "w$i" ok
    end "h$i" "w$i"
done
say 'all servers were killed, and nobody lost a lock or was let in'

# 8. Locks of one mount alone.
mount_also "$LOCAL" -o nolock
program a "$A/counter"
program c "$LOCAL/counter"
tell a ok lock flock
tell a ok lock posix 0:1
tell c ok lock flock
tell c ok lock posix 0:1
expect_equal 'another program on the same mount' "$(perl ./_lock.pl try flock "$LOCAL/counter" 0:0)" busy
end a c
expect 'umount' "$PANDOFS" umount "$LOCAL"
say 'local locks'

# 9. A mount that is killed loses its locks when it has been silent for a minute. One that stood still for
# longer has lost them, too, and is told: so are its programs.
mount_also "$C"
third_mount=$MOUNT_PID
program a "$A/counter"
program b "$B/counter"
program c "$C/counter"
program other "$C/counter"
tell b ok lock posix 0:1
tell c ok lock posix 1:1
begin a wait posix 0:1
wait_until 'somebody to wait' is_sum lock_waiters 1
kill -KILL "$second_mount"
kill -STOP "$third_mount"
begun=$SECONDS
! has_answered a || fail 'the lock of a killed mount was given away at once'
answer a ok
say "the lock of a killed mount was free after $((SECONDS - begun)) s"
tell a ok wait posix 1:1
kill -CONT "$third_mount"
tell c io write nothing
tell c io lock posix 7:1
tell other ok write 12345678901234567890
tell other busy lock posix 1:1
expect_contains 'the log of the mount that stood still' "$(cat "$C-log.txt")" 'is lost: its server did not hear'
tell c io close 0
tell c ok open
tell c busy lock posix 1:1
tell c ok write 00000000000000000000
say 'the programs of a mount that stood still were told'
end a b c other
detach "$B"
expect 'umount' "$PANDOFS" umount "$C"
wait_until 'all to be unlocked' is_sum locks 0

# Limits: the ranges of a file, and the programs that wait on a mount; whoever is beyond is told, and others go on.
expect_equal 'ranges of a file' "$(perl ./_lock.pl many "$A/counter" 4096)" '4096 ENOLCK ok ok ENOLCK'
wait_until 'all to be unlocked' is_sum locks 0
program holder "$A/counter"
tell holder ok lock flock
mkfifo "$SCRATCH/crowd.in"
perl ./_lock.pl crowd "$A/counter" 513 <"$SCRATCH/crowd.in" >"$SCRATCH/crowd.out" &
crowd=$!
started+=("$crowd")
exec {go}>"$SCRATCH/crowd.in"
wait_until 'as many to wait as may' is_sum lock_waiters 512
wait_until 'one to be refused' test -s "$SCRATCH/crowd.out"
expect_equal 'who was refused while 512 wait' "$(cat "$SCRATCH/crowd.out")" 'refused 1'
echo content >"$A/other"
expect_equal 'another file meanwhile' "$(perl ./_lock.pl try flock "$A/other") $(cat "$A/other")" 'ok content'
tell holder ok unlock flock
echo >&"$go"
wait_for_end "$crowd"
expect_equal 'what became of them, by exit code' "$(tail -n 1 "$SCRATCH/crowd.out")" '0:512 1:1'
say '4,096 ranges of a file, 512 programs that wait'
end holder
wait_until 'all to be unlocked' is_sum locks 0
check_online
stop_cluster
