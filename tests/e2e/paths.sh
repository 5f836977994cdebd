#!/bin/bash
# Directories that are placed by their paths, and requests by path: what is made through a mount is found at any depth
# with one request or two, with the rights that a walk gives, before and after changes above, and after servers were
# killed.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster --servers 3 --policy crush-path

DEEP=$MNT/1/2/3/4/5/6/7/8/9/10
INSIDE=/1/2/3/4/5/6/7/8/9/10

# found PATH: how many requests it takes to find a directory by its path inside the file system.
found() {
    "$PANDOFS" dir --data "$DATA" --json "$1" | jq .requests
}

# leads PATH: the shard that the path leads to, and where the directory is.
leads() {
    "$PANDOFS" dir --data "$DATA" --json "$1" |
        jq -r '"\(.path_shard) \(.parts[] | select(.partitions | index(0)) | .shard)"'
}

# counted FIELD: over all servers.
counted() {
    "$PANDOFS" status --data "$DATA" --json | jq "[.servers[].$1] | add"
}

mkdir -p "$DEEP"
echo sap >"$DEEP/leaf"
read -r path home < <(leads "$INSIDE")
expect_equal 'the home of a new directory' "$home" "$path"

# The directory's name is in its parent, which the path leads to; the attributes of the directory are on its own shard.
expect_equal 'requests for a directory ten levels deep, no more than two' "$(($(found "$INSIDE") <= 2))" 1
expect_above 'paths that were answered' "$(counted paths_answered)" 0
say "found with $(found "$INSIDE") requests: $(counted paths_answered) paths answered, $(counted paths_unknown) unknown"

# Who may list what is above does not matter, who may go through it does: what is known below is wrong then, and is found
# again.
chmod 711 "$MNT/1/2"
expect_equal 'requests after a change that does not matter, no more than two' "$(($(found "$INSIDE") <= 2))" 1
chmod 700 "$MNT/1/2"
unknown=$(counted paths_unknown)
found "$INSIDE" >"$SCRATCH/walked"
expect_above 'paths that were not known after a change above' "$(counted paths_unknown)" "$unknown"
expect_above 'requests of a walk' "$(cat "$SCRATCH/walked")" 10
expect_equal 'requests after that, no more than two' "$(($(found "$INSIDE") <= 2))" 1

# A rename moves nothing: the new path leads on to where the directory has stayed.
mv "$MNT/1/2/3" "$MNT/moved"
expect_refused 'no such' "$PANDOFS" dir --data "$DATA" "$INSIDE"
MOVED=/moved/4/5/6/7/8/9/10
found "$MOVED" >"$SCRATCH/walked"
expect_equal 'requests along the pointer, no more than three' "$(($(found "$MOVED") <= 3))" 1
expect_equal 'what is in it' "$(cat "$MNT$MOVED/leaf")" sap

# Nothing of it is lost when servers are killed.
for server in 0 1 2; do
    kill_server "$server"
done
expect_equal 'what is in it after servers were killed' "$(cat "$MNT$MOVED/leaf")" sap
expect_equal 'requests after that, no more than three' "$(($(found "$MOVED") <= 3))" 1
chmod 700 "$MNT/moved/4"
mkdir "$MNT/moved/4/new"
expect_equal 'a directory below a moved one' "$("$PANDOFS" dir --data "$DATA" --json /moved/4/new | jq .entries)" 0

# A source tree of many directories is what was copied, and is spread over the shards.
mkdir -p "$MNT"/tree/{a,b,c,d}/{e,f,g,h}/{i,j,k,l}
expect_equal 'directories of a tree' "$(find "$MNT/tree" -type d | wc -l)" 85
shards=$(for directory in "$MNT"/tree/*/*; do
    "$PANDOFS" dir --json "$directory" | jq '.parts[0].shard'
done | sort -u | wc -l)
expect_above 'shards of 16 directories' "$shards" 8

stop_cluster
