#!/bin/bash
# What a server finds on its disk and is not what it should be: other formats, damaged and missing files,
# another cluster's map. It says which file, does not start, and changes nothing. What it can only find
# while it serves ends it, and it is not started again and again.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

MAP=$DATA/cluster.json
COPY=$SCRATCH/copy

# What must stay as it is: all but what RocksDB writes for people, and files that are only locked.
contents() {
    (cd "$1" && find . -type f ! -name 'LOG*' ! -iname lock -exec sha256sum {} + | sort -k 2)
}

# flip FILE [OFFSET]: changes one bit of the byte there, or in the middle.
flip() {
    perl -e 'open my $file, "+<", $ARGV[0] or die "$ARGV[0]: $!\n";
        my $at = $ARGV[1] // int((-s $file) / 2);
        seek $file, $at, 0; read $file, my $byte, 1; seek $file, $at, 0;
        print $file chr(ord($byte) ^ 0x10); close $file or die "$!\n"' "$@"
}

# refused WHAT TEXT COMMAND...: with what COMMAND does to a copy of server 0's directory the server does
# not start and says TEXT, fsck neither, and nothing is changed.
refused() {
    local what=$1 text=$2 before output code=0 starts=1
    shift 2
    # What is of no use to try again before somebody has put another directory or map there.
    case $text in *server.json* | *'holds no server' | *'is missing or empty') starts=78 ;; esac
    rm -rf "$COPY"
    cp -a "$DATA/server-0/data" "$COPY"
    (cd "$COPY" && "$@") || fail "$what: '$*' ended with $?"
    before=$(contents "$COPY")
    output=$(timeout "$PATIENCE" "$PANDOFS" serve --cluster "$map" --id 0 --data "$COPY" 2>&1) || code=$?
    expect_equal "$what: the exit code ($output)" "$code" "$starts"
    expect_contains "$what" "$output" "pandofs: cannot start server 0"
    expect_contains "$what" "$output" "$text"
    diff <(echo "$before") <(contents "$COPY") || fail "$what: something was changed"
    code=0
    output=$("$PANDOFS" fsck --offline --cluster "$map" --server-data "$COPY" \
        --server-data "$DATA/server-1/data" 2>&1) || code=$?
    expect_equal "$what: the exit code of fsck ($output)" "$code" 1
    expect_contains "$what: fsck" "$output" "$text"
    diff <(echo "$before") <(contents "$COPY") || fail "$what: fsck changed something"
    say "$what: ${output#pandofs: }"
}

# Both servers get something into their stores and logs; what the second run writes is in the logs only.
start_cluster --servers 2 --policy random --stripe-unit 65536
for ((i = 0; i < 40; i++)); do
    mkdir "$MNT/$i"
    for ((j = 0; j < 40; j++)); do
        echo "$i $j" >"$MNT/$i/$j"
    done
done
head -c 1000000 /dev/urandom >"$MNT/large"
stop_cluster
start_cluster
for ((i = 0; i < 40; i++)); do
    echo more >"$MNT/$i/more"
done
sync "$MNT"/*/more
kill_cluster
log=log/0000000000000001.raftlog
[[ -s $DATA/server-0/data/$log ]] || fail "server 0 has no $log"
# The largest table has the entries.
table=$(cd "$DATA/server-0/data" && ls -S store/*.sst | sed -n 1p)
manifest=store/$(cat "$DATA/server-0/data/store/CURRENT")
say "the log has $(stat -c %s "$DATA/server-0/data/$log") bytes, $table $(stat -c %s "$DATA/server-0/data/$table")"

# 1. Formats of another release.
map=$MAP
refused 'a store of another format' "$COPY/store has format 'pandofs-store 2'" tee store/FORMAT <<<'pandofs-store 2'
refused 'a store without a format' "$COPY/store has format 'no FORMAT file'" rm store/FORMAT
refused 'a log of another format' "$COPY/log/FORMAT has format 'pandofs-log 9'" tee log/FORMAT <<<'pandofs-log 9'
refused 'a log without a format' "$COPY/log/FORMAT has format 'none'" rm log/FORMAT
refused 'a directory of another format' "$COPY/server.json has format 2, and this program reads format 1" \
    sed -i 's/"format": 1/"format": 2/' server.json
refused 'a directory with a broken marker' "$COPY/server.json cannot be read" truncate --size=20 server.json
refused 'a directory without a marker' "$COPY holds no server" rm server.json
refused 'the directory of another server' "$COPY/server.json belongs to server 1, not to server 0" \
    cp "$DATA/server-1/data/server.json" .

# 2. Damage to the log: of what was forced everything must be there.
refused 'a flipped bit in the middle of the log' "$COPY/$log: at byte" flip "$log"
refused 'a flipped bit in the first bytes of the log' "$COPY/$log: at byte 0: the file's magic bytes are wrong" flip "$log" 3
refused 'a log that was cut off' "$COPY/$log: at byte" truncate --size=1000 "$log"
refused 'a log without its file' "$COPY/$log: the file is missing" rm "$log"
refused 'a directory without its log' "$COPY/log is missing or empty" rm -r log

# 3. Damage to the store that shows when it is opened, and to the data objects' directory.
refused 'a table that was cut off' "$COPY/$table" truncate --size=-100 "$table"
refused 'a flipped bit at the end of a table' "$COPY/$table" flip "$table" $(($(stat -c %s "$DATA/server-0/data/$table") - 3))
refused 'a missing table' "$COPY/$table" rm "$table"
refused 'a flipped bit in the list of tables' "$COPY/$manifest" flip "$manifest"
refused 'a missing list of tables' "$COPY/$manifest" rm "$manifest"
refused 'a directory without its store' "$COPY/store is missing or empty" rm -r store
refused 'a directory without its data objects' "$COPY/data is missing or empty" rm -r data

# 4. The map of another cluster, and maps that are none.
"$PANDOFS" format --cluster "$SCRATCH/other.json" --servers "unix:$SCRATCH/a,unix:$SCRATCH/b" >/dev/null
map=$SCRATCH/other.json
refused "another cluster's map" "$COPY/server.json belongs to the file system $(jq -r .fs "$MAP")" true
expect_refused 'the cluster map has no server 7' \
    "$PANDOFS" serve --cluster "$MAP" --id 7 --data "$DATA/server-0/data"
cp "$MAP" "$SCRATCH/map"
bad_map() {
    expect_refused "$MAP" "$PANDOFS" up --data "$DATA" --no-mount
    expect_refused "$1" "$PANDOFS" up --data "$DATA" --no-mount
    cp "$SCRATCH/map" "$MAP"
}
echo '{' >"$MAP"
bad_map 'EOF while parsing'
jq '.format = 2' "$SCRATCH/map" >"$MAP"
bad_map 'format 2'
jq '.shards[3] = 7' "$SCRATCH/map" >"$MAP"
bad_map 'shard 3'
jq '.servers[1].id = 0' "$SCRATCH/map" >"$MAP"
bad_map 'there are two servers 0'
jq '.settings.split_threshold = 0' "$SCRATCH/map" >"$MAP"
bad_map 'split_threshold'
rm "$MAP"
expect_refused "there is no cluster map $MAP: put the map back" "$PANDOFS" up --data "$DATA" --no-mount
cp "$SCRATCH/map" "$MAP"
say 'maps that are none were refused'

# 5. `up` of a cluster with one bad server stops the others, mounts nothing and shows why.
cp -a "$DATA/server-0/data/$log" "$SCRATCH/log"
flip "$DATA/server-0/data/$log"
code=0
output=$("$PANDOFS" up --data "$DATA" --mount "$MNT" 2>&1) || code=$?
expect_equal 'the exit code of up' "$code" 1
expect_contains 'what up said' "$output" 'server 0 (pid'
expect_contains 'what up said' "$output" "exited with code 1 while starting; the end of its log $DATA/server-0/log.txt"
expect_contains 'what up said' "$output" "$DATA/server-0/data/$log: at byte"
! is_mounted "$MNT" || fail "it is mounted"
say "up showed why: ${output##*$'\n'}"
cp -a "$SCRATCH/log" "$DATA/server-0/data/$log"

# 6. Damage that is found only when it is read: whoever needs what is damaged gets EIO, the log and fsck name the
# place, and the rest is served.
start_cluster
expect 'what was there before' diff <(echo more) "$MNT/39/more"
stop_cluster
# A block that the start did not read already. (Those in the middle have the names of the root, without which nothing is
# found.)
cp -a "$DATA/server-0/data" "$SCRATCH/right"
table=$(cd "$DATA/server-0/data" && ls -S store/*.sst | sed -n 1p)
flip "$DATA/server-0/data/$table" $(($(stat -c %s "$DATA/server-0/data/$table") * 2 / 3))
start_cluster
server=$(server_pid 0)
# The directory's own attributes may be among what is damaged.
find "$MNT" -mindepth 2 -type f -exec cat {} + >"$SCRATCH/found" 2>"$SCRATCH/errors" || true
grep 'Input/output error' "$SCRATCH/errors" | sed -n 1p | grep . || fail 'the reader found everything'
! grep -v 'Input/output error' "$SCRATCH/errors" || fail 'the reader was told something else'
lines=$(grep -c . "$SCRATCH/found")
[[ $lines -gt 40 && $lines -lt $((40 * 41)) ]] || fail "the reader found $lines lines"
grep "damage: a request to shard .*corrupt store: .*in $DATA/server-0/data/$table offset" "$DATA/server-0/log.txt" |
    sed -n 1p | grep . || fail "the log of server 0 does not say which file is corrupt"
code=0
output=$("$PANDOFS" fsck --data "$DATA" 2>&1) || code=$?
expect_equal "the exit code of fsck ($output)" "$code" 4
expect_contains 'what fsck said' "$output" "readable: server 0: cannot read the store: corrupt store: "
expect_contains 'what fsck said' "$output" "$DATA/server-0/data/$table"
expect_equal 'the process of server 0' "$(server_pid 0)" "$server"
say "of a damaged table the rest is served: $lines of $((40 * 41)) lines"
# Not all of it can be forced and flushed: how `up` ends is not the question.
kill_cluster
# A copy brings it back.
rm -r "$DATA/server-0/data"
mv "$SCRATCH/right" "$DATA/server-0/data"
start_cluster
expect_equal 'files that are there again' "$(find "$MNT" -type f | wc -l)" $((40 * 41 + 1))
expect_equal 'lines in them' "$(find "$MNT" -mindepth 2 -type f -exec cat {} + | wc -l)" $((40 * 41))
say 'with a copy of the table everything is there again'
check_online

# 7. The longer a server is of no use, the longer it is left alone.
for ((i = 0; i < 40; i++)); do
    echo again >"$MNT/$i/again"
done
sync "$MNT"/*/again
log=$(cd "$DATA/server-0/data" && ls -S log/*.raftlog | sed -n 1p)
cp "$DATA/server-0/data/$log" "$SCRATCH/log"
flip "$DATA/server-0/data/$log" 3
kill -KILL "$(server_pid 0)"
said() {
    grep -q "$1" "$UP_OUTPUT"
}
wait_until 'up to leave the server alone for a while' \
    said "server 0 (pid [0-9]*) exited with code 1: starting it again in [0-9.]* s; its log is $DATA/server-0/log.txt"
# Only the bit: what the server would have written since is nothing.
flip "$DATA/server-0/data/$log" 3
wait_until 'all servers to answer' all_servers_answer
expect_equal 'what was written before' "$(cat "$MNT"/*/again | sort -u)" again
check_online
stop_cluster
