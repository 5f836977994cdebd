#!/bin/bash
# One server joins three: it gets its fair part of a large directory that is in use by that alone, and of others by
# 'pandofs rebalance', which shows on a terminal how far it is and says nothing in a pipe; and nothing is lost or changed.
# (add_server.sh has servers that join while others work on everything; machines.sh has one on another machine.)
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# More than 18 partitions need to split by: the smallest of them, a 32nd of the whole, is to be over the threshold.
FILES=12000
THRESHOLD=300

# entries DIRECTORY: of each server, one a line.
entries() {
    "$PANDOFS" dir --json "$1" | jq '[range(4) as $server | [.parts[] | select(.server == $server).entries] | add // 0][]'
}

# may_have ENTRIES PER_CENT: what one of four servers has at most that is to have so much more than the mean: names are
# spread by their hashes, so chance adds to it, up to six standard deviations (one in 500 million is more).
may_have() {
    awk -v entries="$1" -v over="$2" 'BEGIN {
        printf "%d", entries / 4 * (1 + over / 100) + 6 * sqrt(entries * 0.25 * 0.75)
    }'
}

has_partitions() {
    [[ $("$PANDOFS" dir --json "$1" | jq .partitions) -eq $2 ]]
}

# The names, kinds, sizes, numbers and links of all that is below.
listed() {
    (cd "$1" && find . -printf '%P %y %s %i %n %m\n' | sort)
}

contents() {
    (cd "$1" && find . -type f -size +0 | sort | xargs sha256sum)
}

start_cluster --servers 3 --threshold "$THRESHOLD"
for directory in used shown silent; do
    mkdir "$MNT/$directory"
    (cd "$MNT/$directory" && seq -f 'file-%.0f' "$FILES" | xargs -n 2000 -P 4 touch)
    # Of three servers a directory has 18 partitions at most: these have come to that.
    wait_until "$directory to have split" has_partitions "$MNT/$directory" 18
    for number in {1..200}; do
        echo "$directory $number" >"$MNT/$directory/file-$number"
    done
done
mkdir -p "$MNT/tree"/{1..5}/{1..5}/{1..5}
for directory in "$MNT/tree"/*/*/*; do
    echo "$directory" >"$directory/file"
    ln "$directory/file" "$MNT/silent/linked-${directory//\//-}"
    ln -s "$directory/file" "$directory/link"
done
for directory in shown silent tree; do
    listed "$MNT/$directory" >"$SCRATCH/$directory-listed"
    contents "$MNT/$directory" >"$SCRATCH/$directory-contents"
done
say "3 directories of $FILES files on 3 servers"

expect 'adding a server' "$PANDOFS" server add --data "$DATA"
# A third of the 64 that the three have.
expect_equal 'shards of the server that joined' \
    "$("$PANDOFS" status --data "$DATA" --json | jq '.servers[3].shards')" 21
for directory in used shown silent; do
    expect_equal "entries of $directory on server 3" "$(entries "$MNT/$directory" | sed -n 4p)" 0
done

# is_spread DIRECTORY PER_CENT: nobody has more than that over the mean.
is_spread() {
    local all most
    all=$(entries "$1" | jq -s add)
    most=$(entries "$1" | sort -n | tail -n 1)
    [[ $most -le $(may_have "$all" "$2") ]]
}

# By use: names are made until it is spread.
made=$FILES
spreads_by_use() {
    (cd "$MNT/used" && seq -f 'file-%.0f' $((made + 1)) $((made + 200)) | xargs touch)
    made=$((made + 200))
    is_spread "$MNT/used" 10
}
wait_until 'the directory in use to be spread' spreads_by_use
say "the directory in use after $((made - FILES)) further names: $(entries "$MNT/used" | tr '\n' ' ')"
expect_above 'what server 3 has of it' "$(entries "$MNT/used" | sed -n 4p)" $((made / 6))

# By rebalance, on a terminal: so slowly that there is something to see.
script -qec "stty cols 200; exec '$PANDOFS' rebalance --rate 1500 '$MNT/shown'" "$SCRATCH/terminal.txt" </dev/null \
    >"$SCRATCH/script.txt"
expect_contains 'what the terminal showed' "$(cat "$SCRATCH/terminal.txt")" 'moved: /shown'
expect_contains 'what it said in the end' "$(tail -n 3 "$SCRATCH/terminal.txt")" '1 directory looked at, 1 split into '
# In a pipe.
"$PANDOFS" rebalance "$MNT/silent" 2>"$SCRATCH/silent-errors" | cat >"$SCRATCH/silent-said"
expect_equal 'what it said of its progress' "$(cat "$SCRATCH/silent-errors")" ''
expect_equal 'lines that it wrote' "$(wc -l <"$SCRATCH/silent-said")" 1
expect_contains 'what it wrote' "$(cat "$SCRATCH/silent-said")" '1 directory looked at, 1 split into '

# Of three servers' 18 partitions the fourth gets a quarter, and each of the others keeps one (docs/placement.md).
for directory in shown silent; do
    say "$directory after rebalancing: $(entries "$MNT/$directory" | tr '\n' ' ')"
    expect "$directory to be spread evenly" is_spread "$MNT/$directory" 0
    all=$(entries "$MNT/$directory" | jq -s add)
    least=$((all / 2 - $(may_have "$all" 0)))
    expect_above "entries of $directory on server 3" "$(entries "$MNT/$directory" | sed -n 4p)" "$least"
done
again=$("$PANDOFS" rebalance --json "$MNT/silent")
expect_equal 'partitions that a second run makes' "$(jq .partitions <<<"$again")" 0

# What was there is there.
for directory in shown silent tree; do
    listed "$MNT/$directory" | cmp - "$SCRATCH/$directory-listed"
    contents "$MNT/$directory" | cmp - "$SCRATCH/$directory-contents"
done
expect_equal 'files in the directory in use' "$(ls "$MNT/used" | sort -u | wc -l)" "$made"
check_online
stop_cluster
start_cluster
expect_equal 'servers after a stop' "$("$PANDOFS" status --data "$DATA" --json | jq '.servers | length')" 4
for directory in shown silent tree; do
    listed "$MNT/$directory" | cmp - "$SCRATCH/$directory-listed"
done
stop_cluster
