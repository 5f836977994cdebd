#!/bin/bash
# A server goes away under running programs, killed once and once stopped: they wait and go on, the
# mount's log says for whom, and what does not need that server is not held up. A mount with --soft gives
# programs an error instead.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

MIB=$((1 << 20))
DIRS=64
FILES=5

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
kill -CONT "$served"
have_gone_on
say 'it goes on, and so did they'

check_online
expect umount "$PANDOFS" umount "$SOFT"
expect umount "$PANDOFS" umount "$MNT"
kill -TERM "$served"
wait_for_end "$served"
expect_equal 'the exit code of the server' "$CODE" 0
stop_cluster
