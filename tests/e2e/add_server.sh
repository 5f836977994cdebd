#!/bin/bash
# Servers are added to a cluster that is in use: nobody sees an error, what is stored stays whole, a large directory
# spreads to them by use and by 'pandofs rebalance', and a killed server comes back with the new map.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

FILES=20000

entries_of() {
    "$PANDOFS" status --data "$DATA" --json | jq ".servers[$1].entries"
}

# server_entries DIRECTORY SERVER: entries of that directory on that server.
server_entries() {
    "$PANDOFS" dir --json "$1" | jq "[.parts[] | select(.server == $2).entries] | add // 0"
}

all_go_by() {
    [[ $("$PANDOFS" status --data "$DATA" --json | jq -c '[.servers[].epoch] | unique') == "[$1]" ]]
}

start_cluster --servers 2 --threshold 500
mkdir "$MNT/used" "$MNT/still" "$MNT/small"
(cd "$MNT/still" && seq -f 'file-%.0f' "$FILES" | xargs touch)
(cd "$MNT/used" && seq -f 'file-%.0f' 4000 | xargs touch)
touch "$MNT/small"/{1..20}
cp -r /usr/share/common-licenses "$MNT/licenses" 2>/dev/null || cp /bin/sh "$MNT/licenses"
head -c 3000000 /dev/urandom >"$MNT/large"
sum=$(sha256sum <"$MNT/large")
expect_equal 'partitions before' "$("$PANDOFS" dir --json "$MNT/still" | jq .partitions)" 2
ln "$MNT/still/file-1" "$MNT/small/linked"
# A file that is open all the while, under a lock.
exec 8<>"$MNT/still/file-7"
flock 8
say "$FILES files in one directory of 2 servers"

# Programs that make, write, rename, list and remove until they are told to stop; each must never see an error.
worker() {
    local me=$1 number=0
    set -e
    while [[ ! -e $SCRATCH/stop ]]; do
        number=$((number + 1))
        echo "$number" >"$MNT/used/worker-$me-$number"
        mv "$MNT/used/worker-$me-$number" "$MNT/used/kept-$me-$number"
        [[ $(<"$MNT/used/kept-$me-$number") == "$number" ]]
        mkdir "$MNT/small/dir-$me-$number"
        if ((number % 3 == 0)); then
            rm "$MNT/used/kept-$me-$number"
            rmdir "$MNT/small/dir-$me-$number"
        fi
        ((number % 50)) || ls "$MNT/still" >"$SCRATCH/listed-$me"
        echo "$number" >"$SCRATCH/at-$me"
    done
    echo "$number" >"$SCRATCH/made-$me"
}
workers=()
for me in 1 2 3; do
    worker "$me" 2>"$SCRATCH/worker-$me.txt" &
    workers+=("$!")
    started+=("$!")
done

before=$SECONDS
expect 'adding two servers' "$PANDOFS" server add --data "$DATA" --count 2
say "two servers added in $((SECONDS - before)) s"
expect 'all servers to go by the new map' all_go_by 2
expect_equal 'servers' "$("$PANDOFS" status --data "$DATA" --json | jq '.servers | length')" 4
expect_contains 'what up said' "$(cat "$UP_OUTPUT")" 'server 3 has joined'

# The directory in use splits by that alone.
used_spreads() {
    [[ $(server_entries "$MNT/used" 2) -gt 0 && $(server_entries "$MNT/used" 3) -gt 0 ]]
}
wait_until 'the directory in use to spread to the new servers' used_spreads
say 'the directory in use has spread by use'
expect_equal 'entries of the other on server 2' "$(server_entries "$MNT/still" 2)" 0

changed=$(stat -c %z "$MNT/still")
report=$("$PANDOFS" rebalance --data "$DATA" --json 2>"$SCRATCH/rebalance.txt")
expect_equal 'what rebalance said on standard error' "$(cat "$SCRATCH/rebalance.txt")" ''
say "rebalance: $(jq -c . <<<"$report")"
for server in 0 1 2 3; do
    count=$(server_entries "$MNT/still" "$server")
    expect_above "entries on server $server" "$count" $((FILES / 5))
    expect_below "entries on server $server" "$count" $((FILES * 3 / 10))
done
expect_equal 'time of change of what has spread' "$(stat -c %z "$MNT/still")" "$changed"
expect_equal 'partitions after' "$("$PANDOFS" dir --json "$MNT/still" | jq .partitions)" 4
expect_above 'entries that moved' "$(jq .moved <<<"$report")" $((FILES / 3))
again=$("$PANDOFS" rebalance --data "$DATA" --json)
expect_equal 'partitions that a second run makes' "$(jq .partitions <<<"$again")" 0

# A server is killed: it comes back with the new map.
kill_server 0
kill_server 2
expect 'all servers to go by the new map after a kill' all_go_by 2

# Whoever works goes on working.
at() {
    cat "$SCRATCH/at-$1"
}
has_come_to() {
    [[ $(at "$1") -ge $2 ]]
}
for me in 1 2 3; do
    wait_until "worker $me to go on" has_come_to "$me" $(($(at "$me") + 30))
done
touch "$SCRATCH/stop"
for me in 1 2 3; do
    wait_for_end "${workers[$((me - 1))]}"
    [[ $CODE -eq 0 ]] || fail "worker $me ended with $CODE: $(cat "$SCRATCH/worker-$me.txt")"
    expect_equal "what worker $me said" "$(cat "$SCRATCH/worker-$me.txt")" ''
done
made=0
kept=0
for me in 1 2 3; do
    number=$(cat "$SCRATCH/made-$me")
    made=$((made + number))
    kept=$((kept + number - number / 3))
done
say "$made files were made, renamed and read meanwhile"
expect_equal 'files in the directory in use' "$(ls "$MNT/used" | wc -l)" $((4000 + kept))
expect_equal 'directories' "$(find "$MNT/small" -mindepth 1 -type d | wc -l)" "$kept"
expect_equal 'files in the other' "$(ls "$MNT/still" | sort -u | wc -l)" "$FILES"
expect_equal 'links of a file' "$(stat -c %h "$MNT/still/file-1")" 2
expect_equal 'contents' "$(sha256sum <"$MNT/large")" "$sum"
# The lock is still held, also where the file has moved meanwhile.
! flock --nonblock "$MNT/still/file-7" true || fail 'the lock was lost'
echo through >&8
exec 8>&-
expect_equal 'what was written to the open file' "$(cat "$MNT/still/file-7")" through
# New directories go to the new servers as well.
expect_above 'directories and files on server 3' "$(entries_of 3)" $((FILES / 5))
check_online
stop_cluster
start_cluster
expect_equal 'files after a stop' "$(ls "$MNT/still" | wc -l)" "$FILES"
expect 'all servers to go by the new map after a stop' all_go_by 2
mount_also "$SCRATCH/second"
expect_equal 'files at another mount' "$(ls "$SCRATCH/second/still" | wc -l)" "$FILES"
"$PANDOFS" umount "$SCRATCH/second"
stop_cluster
