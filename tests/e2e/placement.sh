#!/bin/bash
# Where directories go under each policy, set for one directory and inherited below it; what a server says of it;
# and the programs that show and measure it: model, bench and trace.
set -euo pipefail
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster --servers 4

# home DIRECTORY: its home shard, which has its partition 0.
home() {
    "$PANDOFS" dir --json "$1" | jq '.parts[] | select(.partitions | index(0)) | .shard'
}

# homes DIRECTORY...: the home shards, one a line.
homes() {
    local directory
    for directory in "$@"; do
        home "$directory"
    done
}

# with_policy NAME POLICY: a directory whose children are placed so.
with_policy() {
    mkdir "$MNT/$1"
    "$PANDOFS" dir --policy "$2" --json "$MNT/$1" >"$SCRATCH/$1.json"
    expect_equal "the policy of $1" "$(jq -r .policy "$SCRATCH/$1.json")" "$2"
}

# Subtree: all that is below stays together, also where the policy was only inherited.
with_policy subtree subtree
mkdir -p "$MNT"/subtree/{a,b,c}/{x,y}/z
expect_equal 'the policy of what is below' "$("$PANDOFS" dir --json "$MNT/subtree/a/x/z" | jq -r .policy)" subtree
expect_equal 'shards of a subtree' "$(homes "$MNT/subtree" "$MNT"/subtree/*{,/*{,/*}} | sort -u | wc -l)" 1

# Random: 24 draws of 64 shards.
with_policy random random
mkdir "$MNT"/random/{1..24}
expect_above 'shards of 24 directories placed at random' "$(homes "$MNT"/random/* | sort -u | wc -l)" 8

# Dir-grain (figure 2 of Xiong et al.): four children to a unit, each unit in one place; the first is the parent's.
with_policy wide ddg:8,4
for child in {01..12}; do
    mkdir "$MNT/wide/$child"
done
mapfile -t shards < <(homes "$MNT"/wide/*)
for unit in 0 4 8; do
    expect_equal "shards of the unit that begins with child $unit" \
        "$(printf '%s\n' "${shards[@]:unit:4}" | sort -u | wc -l)" 1
done
expect_equal 'the first unit' "${shards[0]}" "$(home "$MNT/wide")"
expect_above 'places of three units' "$(printf '%s\n' "${shards[@]}" | sort -u | wc -l)" 1

# The depth ends a unit: what is below its last level is each a unit of its own.
with_policy deep ddg:1,100
mkdir "$MNT"/deep/{1..12}
expect_above 'shards of 12 units' "$(homes "$MNT"/deep/* | sort -u | wc -l)" 4

# What was placed stays where it is when the policy changes.
before=$(homes "$MNT"/random/*)
"$PANDOFS" dir --policy subtree "$MNT/random" >"$SCRATCH/changed"
expect_equal 'directories after the policy changed' "$(homes "$MNT"/random/*)" "$before"
mkdir "$MNT"/random/later-{1..4}
expect_equal 'later ones' "$(homes "$MNT"/random/later-* | sort -u | wc -l)" 1
expect_refused 'is no policy' "$PANDOFS" dir --policy nonsense "$MNT/random"

# Each directory on another shard than its entry took messages between servers.
status=$("$PANDOFS" status --data "$DATA" --branch-points --json)
for field in inodes requests; do
    expect_equal "servers with $field" "$(jq "[.servers[] | select(.$field > 0)] | length" <<<"$status")" 4
done
expect_above 'entries' "$(jq '[.servers[].entries] | add' <<<"$status")" 60
expect_above 'distributed operations' "$(jq '[.servers[].distributed] | add' <<<"$status")" 20
expect_above 'messages between servers' "$(jq '[.servers[].peer_messages] | add' <<<"$status")" 20

# A branch point for each directory that is on another shard than its entry, and none of files.
away=0
for directory in "$MNT"/{*,*/*,*/*/*}; do
    [[ -d $directory ]] || continue
    [[ $(home "$directory") == "$(home "${directory%/*}")" ]] || away=$((away + 1))
done
expect_equal 'branch directories' "$(jq '[.branch_points[].directories] | add' <<<"$status")" "$away"
expect_equal 'branch files' "$(jq '[.branch_points[].files] | add' <<<"$status")" 0
expect_contains 'the table' "$("$PANDOFS" status --data "$DATA" --branch-points)" 'branch directories'

# The benchmarks, through the library and the mount: each phase is measured, and nothing is left.
for workload in mdtest metarates postmark macro1 macro2 tree; do
    "$PANDOFS" bench "$workload" --data "$DATA" --clients 1,4 --files 200 --json "$SCRATCH/bench.jsonl" \
        --out "$SCRATCH/plots-$workload" >"$SCRATCH/table"
    grep -q "^$workload through the library" "$SCRATCH/table"
    grep -q '</svg>' "$SCRATCH/plots-$workload/bench-$workload-library.svg"
done
mkdir "$MNT/bench"
"$PANDOFS" bench macro1 --on "$MNT/bench" --clients 4 --files 200 --json "$SCRATCH/bench.jsonl" \
    --record "$SCRATCH/macro1.trace" >"$SCRATCH/table"
expect_equal 'measurements without a rate' "$(jq -s 'map(select(.operations > 0 and .per_second <= 0)) | length' \
    "$SCRATCH/bench.jsonl")" 0
expect_equal 'workloads measured' "$(jq -r .workload "$SCRATCH/bench.jsonl" | sort -u | wc -l)" 6
expect_equal 'ways measured' "$(jq -r .through "$SCRATCH/bench.jsonl" | sort -u | tr '\n' ' ')" 'library mount '
expect_equal 'what benchmarks left' "$(find "$MNT/bench" -mindepth 1 | wc -l)" 0

# Traces: one that was recorded, and one with a published mix; what is recorded of a replay is the same again.
"$PANDOFS" trace replay --on "$MNT/bench" "$SCRATCH/macro1.trace" >"$SCRATCH/replayed"
"$PANDOFS" trace synthetic --scale 0.0001 --clients 6 "$SCRATCH/fpfs.trace" >"$SCRATCH/table"
"$PANDOFS" trace replay --data "$DATA" --record "$SCRATCH/again.trace" "$SCRATCH/fpfs.trace" >"$SCRATCH/replayed"
expect_equal 'operations of the replay' \
    "$("$PANDOFS" trace summarize --json "$SCRATCH/again.trace" | jq -c .operations)" \
    "$("$PANDOFS" trace summarize --json "$SCRATCH/fpfs.trace" | jq -c .operations)"
"$PANDOFS" trace replay --on "$MNT/bench" --json "$SCRATCH/again.trace" >"$SCRATCH/replayed"
expect_equal 'seconds of the second replay' "$(jq '.seconds > 0' "$SCRATCH/replayed")" true

# The model needs no server, and shows and keeps the same.
"$PANDOFS" model giga orangefs --quick --out "$SCRATCH/model" >"$SCRATCH/model.txt"
grep -q ' claims hold, ' "$SCRATCH/model.txt"
expect_above 'plots' "$(find "$SCRATCH/model" -name '*.svg' | wc -l)" 8
expect_above 'claims' "$(jq -s 'map(select(.kind == "claim")) | length' "$SCRATCH/model/report.jsonl")" 10
expect_equal 'the first again' "$("$PANDOFS" model giga --quick --json | head -n 5)" \
    "$(head -n 5 "$SCRATCH/model/report.jsonl")"

rm -rf "$MNT"/{bench,subtree,random,wide,deep}
check_online
stop_cluster
