#!/bin/bash
# Servers of different weights in two failure domains: each leads shards and gets new directories by its weight, one that
# joins too; 'status' shows how far; and what is no weight or domain is refused before anything is made.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SHARDS=1024
DIRECTORIES=3000
LATER=1000

# expect_drawn WHAT FOUND DRAWS PART DEVIATIONS: FOUND of DRAWS, each of which hits with probability PART, is within so
# many standard deviations of the mean: sqrt(DRAWS * PART * (1 - PART)) is one.
expect_drawn() {
    awk -v found="$2" -v draws="$3" -v part="$4" -v deviations="$5" 'BEGIN {
        off = found - draws * part
        exit !(off * off <= deviations * deviations * draws * part * (1 - part))
    }' || fail "$1: found $2 of $3, wanted about $4 of them"
}

status() {
    "$PANDOFS" status --data "$DATA" --json | jq -c "$1"
}

# Nothing is made of what cannot be.
MAP=$SCRATCH/cluster.json
format() {
    "$PANDOFS" format --cluster "$MAP" --servers tcp:a:7400,tcp:b:7400,tcp:c:7400 "$@"
}
expect_refused '--weights has 2 values for 3 servers: give one for each' format --weights 1,2
expect_refused '--domains has 4 values for 3 servers: give one for each' format --domains a,b,c,d
for wrong in 0 -1 10001 1.0005 heavy ''; do
    expect_refused "'$wrong' is no weight: write a number from 0.001 to 10000" format --weights "1,$wrong,2"
done
expect_refused "' b' is no failure domain: write a name of 1 to 64 bytes without spaces" format --domains 'a, b,c'
expect_refused "'' is no failure domain" format --domains a,,c
[[ ! -e $MAP ]] || fail 'a map was made all the same'
expect_refused '--weights has 2 values for 3 servers' \
    "$PANDOFS" up --data "$DATA" --no-mount --servers 3 --weights 1,2
[[ ! -e $DATA/cluster.json ]] || fail 'a cluster was made all the same'
format --weights 1,0.5,2 --domains left,right,right >/dev/null
expect_equal 'weights of a map' "$(jq -c '[.servers[].weight / 65536]' "$MAP")" '[1,0.5,2]'
expect_equal 'domains of a map' "$(jq -c '[.servers[].domain]' "$MAP")" '["left","right","right"]'
expect_refused '--inline-bytes is fixed when the map is made' \
    "$PANDOFS" format --cluster "$MAP" --id 0 --data "$SCRATCH/0" --inline-bytes 0
expect_refused '--stripe-unit is to be 4096 to' \
    "$PANDOFS" format --cluster "$SCRATCH/none.json" --servers "unix:$SCRATCH/a" --stripe-unit 5
expect_refused 'cannot be used with' "$PANDOFS" format --cluster "$MAP" --id 0 --data "$SCRATCH/0" --weights 1,1,1

# As many servers as there are weights.
start_cluster --shards "$SHARDS" --weights 1,1,2,4 --domains left,left,right,right
expect_equal 'weights' "$(status '[.servers[].weight]')" '[1,1,2,4]'
expect_equal 'domains' "$(status '[.servers[].domain]')" '["left","left","right","right"]'
expect_equal 'parts of all weight' "$(status '[.servers[].share.weight]')" '[0.125,0.125,0.25,0.5]'
read -ra led < <(status '[.servers[].shards]' | tr -d '[]' | tr , ' ')
say "shards of the servers: ${led[*]}"
expect_equal 'shards by weight' "${led[*]}" "$((SHARDS / 8)) $((SHARDS / 8)) $((SHARDS / 4)) $((SHARDS / 2))"

# random_directories FIRST LAST: they are given to the servers by chance; who has how many is then in $got.
random_directories() {
    local all before now server
    read -ra before < <(status '[.servers[].inodes]' | tr -d '[]' | tr , ' ')
    all=$(status '[.servers[].inodes] | add')
    (cd "$MNT/random" && seq -f 'd%.0f' "$1" "$2" | xargs -n 250 -P 4 mkdir)
    wait_until 'all directories to be counted' has_inodes $((all + $2 - $1 + 1))
    read -ra now < <(status '[.servers[].inodes]' | tr -d '[]' | tr , ' ')
    got=()
    for server in "${!now[@]}"; do
        got+=($((now[server] - before[server])))
    done
}
has_inodes() {
    [[ $(status '[.servers[].inodes] | add') -eq $1 ]]
}
mkdir "$MNT/random"
"$PANDOFS" dir --policy random "$MNT/random" >/dev/null
random_directories 1 "$DIRECTORIES"
say "$DIRECTORIES directories at random: ${got[*]}"
# Each directory goes to any shard alike. Six standard deviations: one in 500 million counts is further off. For the
# server of an eighth that is less than a third of what it is to have; had all equal parts it would have twice that.
for server in 0 1 2 3; do
    part=$(awk "BEGIN { print ${led[server]} / $SHARDS }")
    expect_drawn "directories on server $server" "${got[server]}" "$DIRECTORIES" "$part" 6
done
table=$("$PANDOFS" status --data "$DATA")
expect_contains 'the table' "$table" 'of all shards'
[[ $table =~ 3\ +right\ +4\ +50\.0\ %\ +[0-9.]+\ %\ +[0-9.]+\ % ]] || fail "server 3 is not in the table: $table"
expect_equal 'parts of inodes that are not about those of shards' \
    "$(status '[.servers[].share | select((.shards - .inodes | fabs) > 0.06)]')" '[]'

# A server that joins has shards by its weight, and so directories.
expect_refused "'0' is no weight" "$PANDOFS" server add --data "$DATA" --weight 0
expect_refused '--weight has 3 values for 2 servers' \
    "$PANDOFS" server add --data "$DATA" --count 2 --weight 1,2,3
expect_refused 'give them less weight' "$PANDOFS" server add --data "$DATA" --weight 10000
expect_equal 'epoch of the map after that' "$(status .epoch)" 1
expect 'adding a server' "$PANDOFS" server add --data "$DATA" --weight 2 --domain middle
expect_equal 'who joined' "$(status '.servers[4] | [.weight, .domain, .shards]')" "[2,\"middle\",$((SHARDS / 4))]"
random_directories 10001 $((10000 + LATER))
say "$LATER directories at random: ${got[*]}"
expect_drawn 'directories on server 4' "${got[4]}" "$LATER" 0.2 6
check_online
stop_cluster

# Said again it is no contradiction; what it does not have is refused rather than left out.
expect_refused '--weights 1,1,1,1,1: the file system in' \
    "$PANDOFS" up --data "$DATA" --no-mount --weights 1,1,1,1,1
expect_refused 'has left,left,right,right,middle, and that is fixed when it is made' \
    "$PANDOFS" up --data "$DATA" --no-mount --domains a,b,c,d,e
start_cluster --weights 1,1,2,4,2 --domains left,left,right,right,middle
expect_equal 'directories' "$(find "$MNT/random" -mindepth 1 -type d | wc -l)" $((DIRECTORIES + LATER))
stop_cluster
