#!/bin/bash
# Dir-grain that adapts: on a deep and narrow name space, and on a wide and flat one beside it, it spreads about as evenly
# as dir-grain of fixed figures does, without more branch points. What is placed stays where it is when servers are
# killed, and each directory can have bounds of its own.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# How much more than the mean the fullest server may have, in per cent: 30 is what the policy takes for uneven, and units
# that are under way when it is seen come on top of it: 67 beside other tests, which keep servers' figures from one another.
UNEVEN=80
# By how much the fullest server may be fuller than with fixed figures, and branch points may be more, in per cent. (Each
# directory placed at random would make them twice as many, and all of a tree in one place the fullest server three
# times as full.)
WORSE=50

# Depth, width and files with which they begin.
BEGUN='6 256 50'

# A binary tree of 1,023 directories, and 25 directories with 40 each; with each directory four files.
cat >"$SCRATCH/build.py" <<'PYTHON'
import os
import sys


def fill(directory):
    os.mkdir(directory)
    for file in "abcd":
        os.close(os.open(f"{directory}/{file}", os.O_CREAT | os.O_WRONLY, 0o644))


def deep(directory, levels):
    fill(directory)
    if levels > 1:
        for child in ("l", "r"):
            deep(f"{directory}/{child}", levels - 1)


def wide(directory):
    fill(directory)
    for child in range(25):
        fill(f"{directory}/{child}")
        for grandchild in range(40):
            fill(f"{directory}/{child}/{grandchild}")


deep(f"{sys.argv[1]}/deep", 10)
wide(f"{sys.argv[1]}/wide")
PYTHON

# most: what the fullest server has over the mean, in per cent.
most() {
    "$PANDOFS" status --data "$DATA" --json |
        jq '[.servers[].inodes] | (max * length - add) * 100 / add | floor'
}

branch_directories() {
    "$PANDOFS" status --data "$DATA" --branch-points --json | jq '[.branch_points[].directories] | add'
}

# homes: where all directories are, a line each.
homes() {
    find "$MNT" -type d -printf '%i %P\n' | sort
}

# widths: what the servers go by, without repetitions.
widths() {
    "$PANDOFS" status --data "$DATA" --json |
        jq -r '.servers[] | .granularity | "\(.dir_depth) \(.dir_width) \(.file_width)"' | sort -u
}

has_adapted() {
    ! widths | grep -qx "$BEGUN"
}

start_cluster --servers 4 --policy ddg:4,16
expect_equal 'what is gone by without the policy' \
    "$("$PANDOFS" status --data "$DATA" --json | jq '[.servers[] | select(has("granularity"))] | length')" 0
python3 "$SCRATCH/build.py" "$MNT"
fixed_most=$(most)
fixed_branches=$(branch_directories)
say "fixed: the fullest server has $fixed_most % over the mean, $fixed_branches branch directories"
stop_cluster
rm -rf "$DATA"

start_cluster --servers 4 --policy adaptive --file-policy adaptive:50-1000
expect_equal 'the policy' "$("$PANDOFS" dir --json "$MNT" | jq -r '.policy + " " + .file_policy')" \
    'adaptive:1-6,1-256 adaptive:50-1000'
expect_equal 'what is gone by at first' "$(widths)" "$BEGUN"
python3 "$SCRATCH/build.py" "$MNT"
wait_until 'the servers to go by something else' has_adapted
adaptive_most=$(most)
adaptive_branches=$(branch_directories)
say "adaptive: the fullest server has $adaptive_most % over the mean, $adaptive_branches branch directories," \
    "now going by $(widths | paste -sd ';')"
expect_below 'what the fullest server has over the mean' "$adaptive_most" "$UNEVEN"
expect_below 'the fullest server beside that of fixed figures' "$((100 + adaptive_most))" \
    "$(((100 + fixed_most) * (100 + WORSE) / 100))"
expect_below 'branch directories' "$adaptive_branches" "$((fixed_branches * (100 + WORSE) / 100))"
expect_contains 'what people see' "$("$PANDOFS" status --data "$DATA")" 'adaptive: depth '
while read -r depth width files; do
    expect_above 'the depth' "$depth" 0
    expect_below 'the depth' "$depth" 7
    expect_above 'the width' "$width" 0
    expect_below 'the width' "$width" 257
    expect_above 'files that are kept together' "$files" 49
    expect_below 'files that are kept together' "$files" 1001
done < <(widths)

# Servers are killed, begin anew with what they go by, and find everything where it was.
before=$(homes)
for server in 0 1 2 3; do
    kill_server "$server"
done
expect_equal 'directories after the servers were killed' "$(homes)" "$before"
mkdir "$MNT/later"
python3 "$SCRATCH/build.py" "$MNT/later"
expect_below 'what the fullest server has later' "$(most)" "$UNEVEN"

# Bounds of a directory's own: wherever units of two children begin, both are there.
mkdir "$MNT/bounded"
"$PANDOFS" dir --policy adaptive:6-9,2-2 --json "$MNT/bounded" >"$SCRATCH/bounded.json"
expect_equal 'the policy of a directory' "$(jq -r .policy "$SCRATCH/bounded.json")" adaptive:6-9,2-2
mkdir "$MNT"/bounded/{01..24}
for child in {01..24}; do
    "$PANDOFS" dir --json "$MNT/bounded/$child" | jq '.parts[] | select(.partitions | index(0)) | .shard'
done >"$SCRATCH/shards"
awk 'NR % 2 { first = $1; next } $1 != first { exit 1 }' "$SCRATCH/shards" ||
    fail "units of another size than two: $(tr '\n' ' ' <"$SCRATCH/shards")"
expect_equal 'directories that are somewhere' "$(wc -l <"$SCRATCH/shards")" 24
for wrong in adaptive:0-2,2-2 adaptive:3-2,2-2 adaptive:2-2; do
    expect_refused "'$wrong'" "$PANDOFS" dir --policy "$wrong" "$MNT/bounded"
done
expect_refused 'the bounds are to be numbers from 1 on' "$PANDOFS" dir --file-policy adaptive:9-8 "$MNT/bounded"

check_online
stop_cluster
