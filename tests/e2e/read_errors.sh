#!/bin/bash
# A disk that cannot read a file any more, while a server uses it: whoever needs what is there gets EIO, the log,
# scrub and fsck name the file, everything else is served, and the server stays.
# shellcheck source=tests/e2e/_faults.sh
. ./_faults.sh

KIB=1024

start_cluster --policy random --stripe-unit 65536 --servers 2
for ((i = 0; i < 20; i++)); do
    mkdir "$MNT/$i"
    for ((j = 0; j < 60; j++)); do
        echo "$i $j" >"$MNT/$i/$j"
    done
done
head -c $((400 * KIB)) /dev/urandom >"$MNT/large"
head -c $((400 * KIB)) /dev/urandom >"$MNT/other"
sha256sum <"$MNT/large" >"$SCRATCH/large"
sha256sum <"$MNT/other" >"$SCRATCH/other"
inode=$(stat -c %i "$MNT/large")
stop_cluster
with_faults
# With little memory, so that not everything is in it already.
start_cluster --memory 96M
pids=$(cat "$DATA"/server-*/pid)

# 1. A data object.
object=$(printf '%016x' "$inode")
[[ -n $(find "$DATA/server-1" -name "$object") ]] || fail "server 1 has no object $object"
fault eio "server-1/data/data/${object: -2}/$object\$"
expect_refused 'Input/output error' cp "$MNT/large" "$SCRATCH/copy"
expect_equal 'another file' "$(sha256sum <"$MNT/other")" "$(cat "$SCRATCH/other")"
grep -Eq "cannot (read|open) .*$object: Input/output error" "$DATA/server-1/log.txt" ||
    fail "the log of server 1 does not name the object: $(tail -n 5 "$DATA/server-1/log.txt")"
# names_it COMMAND: it says which file it is.
names_it() {
    local code=0 output
    output=$("$PANDOFS" "$1" --data "$DATA" 2>&1) || code=$?
    expect_equal "the exit code of $1 ($output)" "$code" 4
    expect_contains "what $1 said" "$output" "/large: cannot "
    expect_contains "what $1 said" "$output" "$object: Input/output error"
    say "$1: ${output%%$'\n'*}"
}
# fsck knows it from whoever has met it, and still when scrub has.
names_it fsck
names_it scrub
names_it fsck
# What is still in memory is told: no part is written over what cannot be read.
expect_refused 'Input/output error' dd if=/dev/zero of="$MNT/large" bs=1000 count=400 conv=notrunc,fsync
fault eio
head -c $((400 * KIB)) /dev/zero | dd of="$MNT/large" bs=64K conv=notrunc,fsync status=none
expect_equal 'it, with a disk that reads again' "$(sha256sum <"$MNT/large")" \
    "$(head -c $((400 * KIB)) /dev/zero | sha256sum)"
expect 'scrub, with a disk that reads again' "$PANDOFS" scrub --data "$DATA"
check_online
expect_equal 'the servers' "$(cat "$DATA"/server-*/pid)" "$pids"
say 'an object that could not be read'
# What fsck has read of the store is in memory.
stop_cluster
start_cluster --memory 96M
pids=$(cat "$DATA"/server-*/pid)
# But for the first directory, without which nothing is found.
expect 'a listing' ls "$MNT" >/dev/null

# 2. The store: whoever walks all of it comes to what cannot be read.
table=$(cd "$DATA/server-1/data" && ls -S store/*.sst | sed -n 1p)
fault eio "server-1/data/$table"
find "$MNT" -mindepth 2 -type f -exec cat {} + >"$SCRATCH/found" 2>"$SCRATCH/errors" || true
! grep -v 'Input/output error' "$SCRATCH/errors" || fail 'the reader was told something else'
say "$(grep -c . "$SCRATCH/found") lines of $((20 * 60)) were read, $(grep -c . "$SCRATCH/errors") errors"
code=0
output=$("$PANDOFS" fsck --data "$DATA" 2>&1) || code=$?
[[ $code -ne 0 ]] || fail "fsck found nothing: $output"
expect_contains 'what fsck said' "$output" "$table"
expect_equal 'the servers' "$(cat "$DATA"/server-*/pid)" "$pids"
fault eio
expect_equal 'lines that are there again' \
    "$(find "$MNT" -mindepth 2 -type f -exec cat {} + | wc -l)" $((20 * 60))
expect_equal 'the servers' "$(cat "$DATA"/server-*/pid)" "$pids"
check_online
say 'a store that could not be read'

# 3. The log, at a start: the server says what it cannot read, changes nothing, and `up` tries again.
for ((i = 0; i < 20; i++)); do
    echo more >"$MNT/$i/more"
done
sync "$MNT"/*/more
fault eio server-1/data/log/0000
kill -KILL "$(server_pid 1)"
said() {
    grep -q "$1" "$UP_OUTPUT"
}
wait_until 'up to say that the server cannot start' said 'server 1 (pid [0-9]*) exited with code 1: starting it again'
grep -q 'server-1/data/log.*Input/output error' "$DATA/server-1/log.txt" ||
    fail "the log of server 1 does not say what cannot be read: $(tail -n 5 "$DATA/server-1/log.txt")"
fault eio
wait_until 'all servers to answer' all_servers_answer
expect_equal 'what was written before' "$(cat "$MNT"/*/more | sort -u)" more
check_online
stop_cluster
