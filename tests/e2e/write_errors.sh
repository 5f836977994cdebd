#!/bin/bash
# A disk that cannot write or force a file any more, while a server uses it. Of a data object: programs get EIO, the log and
# fsck name it, everything else goes on, and no later fsync succeeds before the disk has what it is about. Of a log or a
# store: the server ends, says what it cannot do, and is started again until it can; programs wait for it, and nothing
# that was acknowledged is lost.
# shellcheck source=tests/e2e/_faults.sh
. ./_faults.sh

KIB=1024

with_faults
start_cluster --policy random --stripe-unit 65536 --servers 2
for ((i = 0; i < 20; i++)); do
    mkdir "$MNT/$i"
done
head -c $((400 * KIB)) /dev/urandom >"$SCRATCH/old"
head -c $((400 * KIB)) /dev/urandom >"$SCRATCH/new"
dd if="$SCRATCH/old" of="$MNT/large" bs=64K conv=fsync status=none
dd if="$SCRATCH/old" of="$MNT/other" bs=64K conv=fsync status=none
inode=$(stat -c %i "$MNT/large")
object=$(printf '%016x' "$inode")
[[ -n $(find "$DATA/server-1" -name "$object") ]] || fail "server 1 has no object $object"
log=$DATA/server-1/log.txt
pids=$(cat "$DATA"/server-*/pid)

# over FILE: writes the new content over what is there, and forces it. force FILE: only that, by another open file.
over() {
    dd if="$SCRATCH/new" of="$1" bs=64K conv=notrunc,fsync status=none
}
force() {
    dd if=/dev/null of="$1" conv=notrunc,fsync status=none
}
names_it() {
    local code=0 output
    output=$("$PANDOFS" fsck --data "$DATA" 2>&1) || code=$?
    expect_equal "the exit code of fsck ($output)" "$code" 4
    expect_contains 'what fsck said' "$output" "/large: cannot $1"
}

# 1. A data object that cannot be forced.
fault sync "server-1/data/data/${object: -2}/$object\$"
for _ in 1 2; do
    expect_refused 'Input/output error' over "$MNT/large"
    expect_refused 'Input/output error' force "$MNT/large"
done
expect 'another file' over "$MNT/other"
names_it sync
expect_equal 'what is read meanwhile' "$(sha256sum <"$MNT/large")" "$(sha256sum <"$SCRATCH/new")"
fault sync
grep -q "cannot sync .*$object: Input/output error" "$log" || fail "the log does not name it: $(tail -n 5 "$log")"
# The system has told what it had to tell, and its own force would do nothing.
expect 'the next force' force "$MNT/large"
grep -q "$object .* is written once more" "$log" || fail "it was not written once more: $(tail -n 5 "$log")"
expect 'scrub' "$PANDOFS" scrub --data "$DATA"
check_online
say 'an object that could not be forced'

# 2. A data object that cannot be written to.
fault write "server-1/data/data/${object: -2}/$object\$"
expect_refused 'Input/output error' dd if="$SCRATCH/old" of="$MNT/large" bs=64K conv=notrunc,fsync status=none
expect 'another file' over "$MNT/other"
fault write
grep -q "cannot write .*$object: Input/output error" "$log" || fail "the log does not name it: $(tail -n 5 "$log")"
expect 'writing it after that' dd if="$SCRATCH/old" of="$MNT/large" bs=64K conv=notrunc,fsync status=none
expect 'what is in it' cmp "$SCRATCH/old" "$MNT/large"
expect 'scrub' "$PANDOFS" scrub --data "$DATA"
check_online
expect_equal 'the servers' "$(cat "$DATA"/server-*/pid)" "$pids"
say 'an object that could not be written to'

# 3. The log and the store of server 1, while a program makes and forces files in all directories.
said() {
    grep -q "$1" "$log"
}
for ((round = 0; round < 4; round++)); do
    case $round in
    0) what=sync part=server-1/data/log/0000 message='server-1/data/log/0000.*Input/output error' ;;
    1) what=write part=server-1/data/log/0000 message='server-1/data/log.*Input/output error' ;;
    2) what=sync part=server-1/data/store/ message='server-1/data/store.*Input/output error' ;;
    3) what=write part=server-1/data/store/ message='server-1/data/store.*Input/output error' ;;
    esac
    : >"$log"
    for ((i = 0; i < 20; i++)); do
        echo "$round acknowledged" >"$MNT/$i/acknowledged"
    done
    fault "$what" "$part"
    for ((i = 0; i < 20; i++)); do
        echo "$round forced" | dd of="$MNT/$i/forced" conv=fsync status=none || exit 1
    done &
    forcing=$!
    started+=("$forcing")
    # A store is flushed when it is to stop.
    [[ $round -lt 2 ]] || kill -TERM "$(server_pid 1)"
    wait_until "the server to say what it cannot do ($what, $part)" said "$message"
    fault "$what"
    wait_for_end "$forcing"
    expect_equal 'how the program ended that forced files' "$CODE" 0
    ! grep -q 'was killed by' "$UP_OUTPUT" || fail "the server did not end well: $(tail -n 5 "$UP_OUTPUT")"
    wait_until 'all servers to answer' all_servers_answer
    for name in acknowledged forced; do
        expect_equal "what was $name" "$(cat "$MNT"/*/$name | sort | uniq -c | xargs)" "20 $round $name"
    done
    check_online
    say "$what, $part: $(grep "$message" "$log" | sed -n 1p)"
done
stop_cluster
