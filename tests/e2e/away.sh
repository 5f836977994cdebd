#!/bin/bash
# A server goes away under running programs, killed once and once stopped: they wait and go on, the
# mount's log says for whom, and what does not need that server is not held up, however many wait. They can be
# killed. A mount with --soft gives programs an error instead.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

MIB=$((1 << 20))
DIRS=64
FILES=5
READERS=40
# More than the mount has threads, each with more than a socket takes under way.
WRITERS=20
AT_ONE_FILE=20
# Seconds within which a program that was killed ends, and others are served while many wait: it is noticed within one,
# and at once where it waits; less than the 30 for which a request waits for its answer.
SOON=20

# home_of PATH: the server with the directory's inode.
home_of() {
    "$PANDOFS" dir --data "$DATA" --json "$1" | jq '.parts[] | select(.partitions | index(0)) | .server'
}

# says SERVER TEXT [LOG]: the mount's log says this of the server.
says() {
    grep -q "server $1 at .* $2" "${3:-$DATA/mount-log.txt}"
}

state_of() {
    { "$PANDOFS" status --data "$DATA" --json || true; } | jq -r ".servers[$1].state"
}

# has_state SERVER STATE
has_state() {
    [[ $(state_of "$1") == "$2" ]]
}

# waits PID: it is within a call of the mount's, for a file that another one has, or does not run for whatever reason where
# the kernel does not say why.
waits() {
    case $(cat "/proc/$1/wchan" 2>/dev/null) in
    *request_wait* | *fuse* | *rwsem* | *folio* | *inode_lock*) ;;
    0 | '') grep -qs '^State:[[:space:]]*[SD]' "/proc/$1/status" ;;
    *) false ;;
    esac
}

# all_wait PID...: each of them, whenever it is looked: what a server that is there is asked is over soon.
all_wait() {
    local look pid
    for ((look = 0; look < 5; look++)); do
        for pid in "$@"; do
            waits "$pid" || return 1
        done
        sleep 0.1
    done
}

# start_waiting: READERS programs, more than the mount has threads, of which each reads all of a file, and so needs every
# server; and WRITERS that write a file each.
start_waiting() {
    waiting=()
    for ((reader = 0; reader < READERS; reader++)); do
        dd if="$MNT/striped" iflag=direct bs=1M of=/dev/null status=none 2>/dev/null &
        waiting+=("$!")
    done
    for ((writer_of = 0; writer_of < WRITERS; writer_of++)); do
        dd if=/dev/zero of="$MNT/never-whole-$writer_of" bs=1M count=64 conv=notrunc status=none 2>/dev/null &
        waiting+=("$!")
    done
    started+=("${waiting[@]}")
    wait_until 'all of them to wait' all_wait "${waiting[@]}"
}

# kill_waiting: each ends by the signal that it gets, while the server is still away.
kill_waiting() {
    local PATIENCE=$SOON index signals=(KILL TERM HUP)
    for index in "${!waiting[@]}"; do
        ! has_ended "${waiting[index]}" || fail 'a program that needs the server has ended'
        kill -"${signals[index % 3]}" "${waiting[index]}"
    done
    for index in "${!waiting[@]}"; do
        wait_until 'a program that was killed to end' has_ended "${waiting[index]}"
    done
}

# start_at_one_file: programs that append to one file, and as many that read it, once the server is gone: they have opened
# it before.
start_at_one_file() {
    waiting=()
    for ((program = 0; program < AT_ONE_FILE; program++)); do
        (
            exec 3>>"$1"
            until [[ -e $SCRATCH/go ]]; do sleep 0.2; done
            echo appended >&3
        ) 2>/dev/null &
        waiting+=("$!")
        (
            exec 3<"$1"
            until [[ -e $SCRATCH/go ]]; do sleep 0.2; done
            exec dd iflag=direct bs=1M status=none <&3 >/dev/null
        ) 2>/dev/null &
        waiting+=("$!")
    done
    started+=("${waiting[@]}")
    for program in "${waiting[@]}"; do
        wait_until 'a program to have opened the file' test -e "/proc/$program/fd/3"
    done
}

# start_programs NAME: a dd that has written a quarter of what it is to write and gets the rest from
# `feed_programs`, and a find that begins with it.
start_programs() {
    name=$1
    head -c $((64 * MIB)) /dev/urandom >"$SCRATCH/original"
    rm -f "$SCRATCH/feed"
    mkfifo "$SCRATCH/feed"
    dd if="$SCRATCH/feed" of="$MNT/$name" bs=64K iflag=fullblock status=none &
    writer=$!
    started+=("$writer")
    exec {feed}>"$SCRATCH/feed"
    head -c $((16 * MIB)) "$SCRATCH/original" >&"$feed"
    wait_until 'dd to have written the beginning' is_as_long "$MNT/$name" $((15 * MIB))
}

is_as_long() {
    [[ $(stat -c %s "$1") -ge $2 ]]
}

feed_programs() {
    tail -c +$((16 * MIB + 1)) "$SCRATCH/original" >&"$feed" &
    feeder=$!
    started+=("$feeder")
    exec {feed}>&-
    # shellcheck disable=SC2016  # expanded by the inner shell
    bash -c 'find "$0" -type f -exec cat {} + | wc -l' "$MNT/tree" >"$SCRATCH/found" 2>&1 &
    finder=$!
    started+=("$finder")
}

still_wait() {
    ! has_ended "$writer" || fail 'dd did not wait for the server'
    ! has_ended "$finder" || fail 'find did not wait for the server'
}

# have_gone_on: both programs have come to their ends, and everything is right.
have_gone_on() {
    wait_for_end "$feeder"
    wait_for_end "$writer"
    expect_equal 'the exit code of dd' "$CODE" 0
    wait_for_end "$finder"
    expect_equal 'the exit code of find' "$CODE" 0
    expect_equal 'lines in the files that find found' "$(cat "$SCRATCH/found")" $((DIRS * FILES))
    expect 'a comparison of what dd wrote' cmp "$SCRATCH/original" "$MNT/$name"
}

# The directories are spread, so that find needs every server; the caches forget at once, so that it asks.
start_cluster --no-restart --policy random --entry-timeout 0 --attr-timeout 0
SOFT=$SCRATCH/mount-soft
mount_also "$SOFT" --soft 3s --entry-timeout 0 --attr-timeout 0
mkdir "$MNT/tree"
for ((i = 0; i < DIRS; i++)); do
    mkdir "$MNT/tree/$i"
    for ((j = 0; j < FILES; j++)); do
        echo "file $j of $i" >"$MNT/tree/$i/$j"
    done
done
head -c $((8 * MIB)) /dev/urandom >"$MNT/striped"

# The server that goes away is one that paths do not lead through, and has directories.
through=" $(home_of /) $(home_of /tree) "
victim=
for ((server = 0; server < 4; server++)); do
    [[ $through == *" $server "* ]] || victim=$server
done
away=
here=
for ((i = 0; i < DIRS; i++)); do
    if [[ $(home_of "/tree/$i") == "$victim" ]]; then away=$i; else here=$i; fi
    [[ -z $away || -z $here ]] || break
done
for ((i = 0; i < WRITERS; i++)); do
    head -c $((8 * MIB)) /dev/zero >"$MNT/never-whole-$i"
done
[[ -n $away && -n $here ]] || fail "all or none of $DIRS directories are on server $victim"
say "server $victim is to go away; it has /tree/$away, but not /tree/$here"

# 1. Killed.
start_programs killed
pid=$(server_pid "$victim")
kill -KILL "$pid"
wait_until "the end of server $victim" has_ended "$pid"
feed_programs
wait_until 'the log to name the server' says "$victim" 'does not answer: waiting, will go on when it is back'
# Others than the server that is away are not named.
expect_equal 'servers that the log names' \
    "$(grep -o 'server [0-9]* at .* does not answer' "$DATA/mount-log.txt" | cut -d ' ' -f 2 | sort -u)" "$victim"
expect_equal 'its state' "$(state_of "$victim")" away
code=0
"$PANDOFS" status --data "$DATA" >"$SCRATCH/status" || code=$?
expect_equal 'the exit code of status' "$code" 3
code=0
"$PANDOFS" fsck --data "$DATA" >"$SCRATCH/fsck" 2>&1 || code=$?
expect_equal 'the exit code of fsck' "$code" 3
still_wait
# What does not need it goes on, on both mounts.
expect_equal 'a file on another server' "$(cat "$MNT/tree/$here/1")" "file 1 of $here"
echo more >"$MNT/tree/$here/more"
rm "$SOFT/tree/$here/more"
say "server $victim was killed: dd and find wait, a file on another server was read, made, removed"

# The soft mount gives up, and no sooner than it was told to.
began=$SECONDS
expect_refused 'Input/output error' cat "$SOFT/tree/$away/1"
expect_refused 'Input/output error' ls "$SOFT/tree/$away"
expect_refused 'Input/output error' sha256sum "$SOFT/striped"
[[ $((SECONDS - began)) -ge 8 ]] || fail "three refusals after $((SECONDS - began)) s"
expect_refused 'Input/output error' mkdir "$SOFT/tree/$away/new"
expect 'the soft mount goes on' test -f "$SOFT/tree/$here/1"
says "$victim" 'does not answer' "$SOFT-log.txt" || fail 'the log of the soft mount does not say so'
say "programs on the soft mount were told, the first three after $((SECONDS - began)) s"
still_wait

# Many wait.
start_waiting
expect_equal 'a file on another server, while many wait' "$(timeout $SOON cat "$MNT/tree/$here/1")" "file 1 of $here"
for ((i = 0; i < 5; i++)); do
    expect 'a change on another server, while many wait' timeout $SOON touch "$MNT/tree/$here/while-$i"
done
began=$SECONDS
kill_waiting
say "$READERS programs that read and $WRITERS that write waited, and ended within $((SECONDS - began)) s when they were killed"
still_wait

"$PANDOFS" serve --cluster "$DATA/cluster.json" --id "$victim" --data "$DATA/server-$victim/data" \
    2>>"$DATA/server-$victim/log.txt" &
served=$!
started+=("$served")
have_gone_on
wait_until 'the log to say that it is back' says "$victim" 'answers again'
expect_equal 'what the soft mount reads again' "$(cat "$SOFT/tree/$away/1")" "file 1 of $away"
wait_until 'status to show it' has_state "$victim" up
say 'it is back: dd and find went on to their ends'

# 2. Stopped: its connections stay, but nothing comes over them.
: >"$DATA/mount-log.txt"
# Its inode is on that server, and find does not look there.
for ((i = 0; ; i++)); do
    mkdir "$MNT/beside-$i"
    [[ $(home_of "/beside-$i") != "$victim" ]] || break
done
one_file=$MNT/beside-$i/one
head -c $((8 * MIB)) /dev/urandom >"$one_file"
cp "$one_file" "$SCRATCH/one"
rm -f "$SCRATCH/go"
start_at_one_file "$one_file"
at_one_file=("${waiting[@]}")
# Two versions of one file, of which the first is being written.
head -c $((8 * MIB)) /dev/urandom >"$SCRATCH/v1"
head -c $((8 * MIB)) /dev/urandom >"$SCRATCH/v2"
start_programs stopped
kill -STOP "$served"
feed_programs
began=$SECONDS
expect_refused 'Input/output error' cat "$SOFT/tree/$away/1"
say "a program on the soft mount was told after $((SECONDS - began)) s"
wait_until 'the log to name the server' says "$victim" 'does not answer: waiting, will go on when it is back'
still_wait
expect_equal 'a file on another server' "$(cat "$MNT/tree/$here/1")" "file 1 of $here"
say "server $victim was stopped: dd and find wait"
start_waiting
expect_equal 'a file on another server, while many wait' "$(timeout $SOON cat "$MNT/tree/$here/2")" "file 2 of $here"
began=$SECONDS
kill_waiting
say "the others ended within $((SECONDS - began)) s when they were killed"
still_wait

# Many wait at one file, each for another one of them.
touch "$SCRATCH/go"
wait_until 'all of them to wait' all_wait "${at_one_file[@]}"
expect_equal 'a file on another server, while many wait at one file' \
    "$(timeout $SOON cat "$MNT/tree/$here/3")" "file 3 of $here"
waiting=("${at_one_file[@]}")
began=$SECONDS
kill_waiting
say "$((2 * AT_ONE_FILE)) programs at one file ended within $((SECONDS - began)) s when they were killed"

# What was killed has its data under way; what is copied next comes after it.
dd if="$SCRATCH/v1" of="$MNT/striped" bs=1M oflag=direct conv=notrunc status=none 2>/dev/null &
first=$!
started+=("$first")
wait_until 'it to wait' all_wait "$first"
! has_ended "$first" || fail 'a program that needs the server has ended'
kill -KILL "$first"
wait_until 'a program that was killed to end' has_ended "$first"
dd if="$SCRATCH/v2" of="$MNT/striped" bs=1M oflag=direct conv=notrunc status=none &
second=$!
started+=("$second")
still_wait
kill -CONT "$served"
have_gone_on
say 'it goes on, and so did they'
wait_for_end "$second"
expect_equal 'the exit code of the second dd' "$CODE" 0
expect 'a comparison of the second version' cmp "$SCRATCH/v2" "$MNT/striped"
# Whoever of the killed programs had begun to append has appended a line, and nobody a part of one.
expect 'a comparison of what had been in the file that they appended to' cmp -n $((8 * MIB)) "$SCRATCH/one" "$one_file"
expect_equal 'other lines in it' "$(tail -c +$((8 * MIB + 1)) "$one_file" | grep -cvx appended || true)" 0
say 'what killed programs had begun was done before what came next'

check_online
expect umount "$PANDOFS" umount "$SOFT"
expect umount "$PANDOFS" umount "$MNT"
kill -TERM "$served"
wait_for_end "$served"
expect_equal 'the exit code of the server' "$CODE" 0
stop_cluster
