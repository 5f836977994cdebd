#!/bin/bash
# Flipped bits in data objects, in their checksums and in the tables of the store: they are found when they are read
# and by `pandofs scrub`, which names the file, as `pandofs fsck` does from then on; whoever reads them gets EIO, and
# the rest is read. Servers that are killed while files are written leave no block that looks damaged, and neither does
# a start of the machine.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

BLOCK=4096
REPORT=$SCRATCH/report

# flip FILE OFFSET: changes one bit of the byte there, in place.
flip() {
    perl -e 'open my $file, "+<", $ARGV[0] or die "$ARGV[0]: $!\n";
        seek $file, $ARGV[1], 0; read $file, my $byte, 1; seek $file, $ARGV[1], 0;
        print $file chr(ord($byte) ^ 0x10); close $file or die "$!\n"' "$@"
}

# scrub CODE: everything, as fast as can be; the exit code is to be that.
scrub() {
    local code=0
    "$PANDOFS" scrub --data "$DATA" --rate 0 --json >"$REPORT" 2>"$SCRATCH/errors" || code=$?
    expect_equal "the exit code of scrub ($(cat "$REPORT" "$SCRATCH/errors"))" "$code" "$1"
}

# fsck CODE [TEXT]...: of the running cluster; the exit code is to be that, and each text is to be in what it prints.
fsck() {
    local code=0 wanted=$1 output text
    shift
    output=$("$PANDOFS" fsck --data "$DATA" 2>&1) || code=$?
    expect_equal "the exit code of fsck ($output)" "$code" "$wanted"
    for text in "$@"; do
        expect_contains 'what fsck says' "$output" "$text"
    done
}

# grouped NUMBER: as it is printed for people.
grouped() {
    sed -E ':next; s/^([0-9]+)([0-9]{3})/\1,\2/; t next' <<<"$1"
}

# remount: so that nothing is read from the kernel's memory.
remount() {
    expect umount "$PANDOFS" umount "$MNT"
    mount_also "$MNT"
}

# object SERVER FILE: the data object of the file on that server.
object() {
    local ino
    ino=$(printf '%016x' "$(stat -c %i "$MNT/$2")")
    echo "$DATA/server-$1/data/data/${ino: -2}/$ino"
}

# get FILE BLOCK: one block of it.
get() {
    dd if="$MNT/$1" bs=$BLOCK skip="$2" count=1 status=none
}

# Files of eight units of 64 KiB on two servers: unit n is on server n % 2 or the other way round.
start_cluster --servers 2 --stripe-unit 65536
mkdir "$MNT/dir"
for name in one two dir/three; do
    head -c $((8 * 65536)) /dev/urandom >"$MNT/$name"
done
ln "$MNT/two" "$MNT/dir/second"
cp -a "$MNT/one" "$MNT/two" "$SCRATCH/"
sync "$MNT/one" "$MNT/two" "$MNT/dir/three"
scrub 0
expect_equal 'whether it is clean' "$(jq -c '[.clean, .damaged]' "$REPORT")" '[true,[]]'
[[ $(jq '[.servers[].objects] | add' "$REPORT") -ge 6 ]] || fail "it looked at $(cat "$REPORT")"
expect_contains 'what it prints' "$("$PANDOFS" scrub --data "$DATA" --rate 0 2>&1)" 'no damage; 6 data objects, '
say "a whole cluster: $(jq -c '[.servers[] | {objects, bytes}]' "$REPORT")"

# 1. A bit of an object, while the servers run.
one=$(object 0 one)
flip "$one" $((2 * BLOCK + 77))
remount
scrub 4
expect_equal 'what is damaged' "$(jq -c '.damaged[] | [.server, .block, .object_offset, .paths]' "$REPORT")" \
    "[0,2,$((2 * BLOCK)),[\"/one\"]]"
at=$(jq '.damaged[0].file_offset' "$REPORT")
code=0
output=$("$PANDOFS" scrub --data "$DATA") || code=$?
expect_equal 'the exit code of scrub' "$code" 4
expect_contains 'what a person is told' "$output" "server 0: bytes "
expect_contains 'what a person is told' "$output" " of /one are damaged (inode "
expect_refused 'Input/output error' get one $((at / BLOCK))
grep -q "damage: block 2 (bytes $((2 * BLOCK)) to $((3 * BLOCK - 1))) of $one (inode " "$DATA/server-0/log.txt" ||
    fail "the log does not name the block: $(tail -n 5 "$DATA/server-0/log.txt")"
expect_equal 'damaged blocks in status' "$("$PANDOFS" status --data "$DATA" --json | jq -c '[.servers[].damaged]')" '[1,0]'
fsck 4 "data: /one: bytes $(grouped "$at") to $(grouped $((at + BLOCK - 1))) are damaged (server 0, inode " '1 problem;'
for ((i = 0; i < 8 * 65536 / BLOCK; i++)); do
    if [[ $i -ne $((at / BLOCK)) ]]; then
        get one "$i" | cmp - <(dd if="$SCRATCH/one" bs=$BLOCK skip="$i" count=1 status=none) || fail "block $i of one"
    fi
done
expect 'the other file' cmp "$MNT/two" "$SCRATCH/two"
# Past the kernel's cache a large read gives what is before the block, and the next one begins with it.
direct() {
    dd if="$MNT/one" iflag=direct,skip_bytes skip="$1" bs=512K count=1 status=none
}
direct 0 | cmp - <(head -c "$at" "$SCRATCH/one") || fail "what is before the damage: $(direct 0 | wc -c) bytes of $at"
expect_refused 'Input/output error' direct "$at"
direct $((at + BLOCK)) | cmp - <(tail -c +$((at + BLOCK + 1)) "$SCRATCH/one") || fail 'what is behind the damage'
say "block $((at / BLOCK)) of one is damaged, and the others are read"

# It is not made valid by writing a part of it, and it is put right by writing it whole.
write_part() {
    printf x | dd of="$MNT/one" bs=1 seek=$((at + 5)) conv=notrunc,fsync oflag=direct status=none
}
expect_refused 'Input/output error' write_part
scrub 4
dd if="$SCRATCH/one" of="$MNT/one" bs=$BLOCK skip=$((at / BLOCK)) seek=$((at / BLOCK)) count=1 conv=notrunc,fsync status=none
remount
expect 'the file after the block was written again' cmp "$MNT/one" "$SCRATCH/one"
fsck 0
scrub 0
say 'written again, it is right'

# 2. A bit of the checksums, one of their header, and an object that was cut off.
three=$(object 1 dir/three)
flip "$three.sums" $((64 + 4 * 5 + 2))
two=$(object 1 two)
flip "$two.sums" 30
truncate --size=-100 "$(object 0 two)"
remount
scrub 4
expect_equal 'what is damaged' "$(jq -c '[.damaged[] | [.server, .block, (.paths | sort)]] | sort' "$REPORT")" \
    '[[0,63,["/dir/second","/two"]],[1,5,["/dir/three"]]]'
expect_equal 'what else is wrong' "$(jq -r '.servers[1].faults[]' "$REPORT")" "the header of $two.sums is damaged"
expect_equal 'the files of it' "$(jq -c '[.failing[] | [.server, .what, (.paths | sort)]]' "$REPORT")" \
    "[[1,\"the header of $two.sums is damaged\",[\"/dir/second\",\"/two\"]]]"
fsck 4 'data: /dir/three: bytes ' ": the header of $two.sums is damaged (server 1, inode " '3 problems;'
rm "$MNT/dir/three" "$MNT/two" "$MNT/dir/second"
wait_until 'removed files to be gone' eval '[[ ! -e $three && ! -e $two ]]'
fsck 0
scrub 0
[[ ! -e $three.sums && ! -e $two.sums ]] || fail 'checksums of removed files are left'
say 'damaged checksums were found, and went with their files'

# 3. A bit that is flipped while the cluster is stopped.
expect umount "$PANDOFS" umount "$MNT"
stop_cluster
flip "$one" 100
start_cluster
# fsck reads no data; it tells of what somebody has met.
fsck 0
expect_refused 'Input/output error' cmp "$MNT/one" "$SCRATCH/one"
fsck 4 'data: /one: bytes '
scrub 4
expect_equal 'what is damaged' "$(jq -c '.damaged[] | [.server, .block, .paths]' "$REPORT")" '[0,0,["/one"]]'
cat "$SCRATCH/one" >"$MNT/one"
scrub 0
say 'so was what was flipped in a stopped cluster'

# 4. Servers killed while files are written: nothing looks damaged, and what was written is there.
fio --name=kills --directory="$MNT" --size=24m --rw=randrw --bsrange=100-70000 --bs_unaligned=1 --verify=crc32c \
    --verify_fatal=1 --verify_state_save=0 --verify_backlog=128 --loops=3 --randseed="${PANDOFS_SEED:-1}" \
    --output="$SCRATCH/fio.txt" &
writer=$!
started+=("$writer")
kills=0
until has_ended "$writer"; do
    kill_server $((kills++ % 2))
done
wait_for_end "$writer"
expect_equal "how fio ended: $(cat "$SCRATCH/fio.txt")" "$CODE" 0
[[ $kills -ge 3 ]] || fail "servers were killed $kills times only"
scrub 0
# Everything is killed in the middle of it.
for ((round = 0; round < 3; round++)); do
    dd if=/dev/urandom of="$MNT/killed" bs=100000 conv=notrunc status=none 2>/dev/null &
    writer=$!
    started+=("$writer")
    is_growing() {
        [[ $(stat -c %s "$(object 0 killed 2>/dev/null)" 2>/dev/null || echo 0) -gt 1000000 ]]
    }
    wait_until 'the file to grow' is_growing
    kill_cluster
    wait_for_end "$writer"
    start_cluster
    scrub 0
    expect 'a file that was being written' cat "$MNT/killed" >/dev/null
    rm "$MNT/killed"
done
say "servers were killed $kills times while files were written, and everything 3 times: nothing looks damaged"

# 5. The machine is started anew (its servers believe so): what was not forced is taken as it is, once.
stop_cluster
head -c 200000 /dev/urandom >"$SCRATCH/new"
start_cluster
cp "$SCRATCH/new" "$MNT/new"
new=$(object 0 new)
[[ -e $new ]] || fail "there is no $new"
stop_cluster
pretend_new_boot 0
flip "$new" 5000
start_cluster
has_forgotten() {
    jq -e '.lost == []' "$DATA/server-0/data/data/generations.json" >/dev/null
}
wait_until 'the servers to have looked at everything' has_forgotten
grep "1 blocks of $new (inode .*) from byte 4096 on do not fit their checksums" "$DATA/server-0/log.txt" ||
    fail "the log does not say so: $(tail -n 5 "$DATA/server-0/log.txt")"
expect 'reading it' cat "$MNT/new" >/dev/null
scrub 0
flip "$new" 9000
scrub 4
cat "$SCRATCH/new" >"$MNT/new"
say 'after a start of the machine, what was not forced was taken as it is, and later damage is damage'

# 6. Paused, nothing is scrubbed.
expect pause "$PANDOFS" scrub --data "$DATA" --pause
expect_equal 'scrub in status' "$("$PANDOFS" status --data "$DATA" --json | jq -c '[.servers[].scrub]')" '["paused","paused"]'
expect_contains status "$("$PANDOFS" status --data "$DATA")" 'scrubbing is paused'
"$PANDOFS" scrub --data "$DATA" >"$SCRATCH/paused.txt" 2>&1 &
paused=$!
started+=("$paused")
wait_until 'a scrub that waits to say so' grep -q 'scrubbing is paused' "$SCRATCH/paused.txt"
expect resume "$PANDOFS" scrub --data "$DATA" --resume
wait_for_end "$paused"
expect_equal 'the exit code of the scrub that waited' "$CODE" 0
scrub 0
expect_refused "'fast' is no number of bytes" "$PANDOFS" scrub --data "$DATA" --rate fast

# 7. A table of the store, of which the server has read what it needs: only looking for it finds it.
for ((i = 0; i < 2000; i++)); do
    : >"$MNT/dir/entry-$i"
done
stop_cluster
start_cluster
table=$(ls -S "$DATA"/server-0/data/store/*.sst | sed -n 1p)
cp "$table" "$SCRATCH/table"
find "$MNT" | wc -l
flip "$table" 200
scrub 4
expect_contains 'what is wrong' "$(jq -r '.servers[0].faults[]' "$REPORT")" 'the store is damaged'
expect_contains 'what is wrong' "$(jq -r '.servers[0].faults[]' "$REPORT")" "$table"
fsck 4 "server 0: " "$table"
dd if="$SCRATCH/table" of="$table" conv=notrunc status=none
scrub 0
say 'a flipped bit in a table was found before anybody read it'

# 8. Servers scrub by themselves.
stop_cluster
flip "$one" 100
start_cluster --scrub-interval 1s --scrub-rate 0
finds_it() {
    [[ $("$PANDOFS" status --data "$DATA" --json | jq '[.servers[].damaged] | add') -eq 1 ]]
}
wait_until 'a server to find damage by itself' finds_it
flip "$one" 100
wait_until 'a server to find that it is right again' eval '! finds_it'
say 'servers found it by themselves'
check_online
stop_cluster
