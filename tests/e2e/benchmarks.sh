#!/bin/bash
# The benchmark programs still run: tiny, for they are here not to rot, not to measure.
set -euo pipefail
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

programs=$(dirname "$PANDOFS")
for program in pandofs-bench pandofs-walk-bench examples/memfs examples/wire_bench examples/store_bench examples/log_bench; do
    [[ -x $programs/$program ]] || fail "$programs/$program is missing: make e2e builds it"
done

# ext4 and bindfs need root and more packages; what is ours is measured without.
"$programs/pandofs-bench" run --pandofs "$PANDOFS" --memfs "$programs/examples/memfs" \
    --targets memfs,mount,library --files 400 --rounds 1 --processes 1,2 \
    --scratch "$SCRATCH" --json "$SCRATCH/figures.jsonl" >"$SCRATCH/table" 2>"$SCRATCH/log" ||
    fail "$(cat "$SCRATCH/log")"
cat "$SCRATCH/table"
for target in memfs mount library; do
    # A figure for each number of processes, of the one round that counts.
    expect_equal "figures of $target" "$(grep -c "\"target\":\"$target\"" "$SCRATCH/figures.jsonl")" 2
done

# A person's work, each phase of one round.
mkdir "$SCRATCH/source" && cp -r "$(dirname "$0")" "$SCRATCH/source/tree"
"$programs/pandofs-bench" work --pandofs "$PANDOFS" --memfs "$programs/examples/memfs" --tree "$SCRATCH/source/tree" \
    --targets memfs,mount --files 60 --rounds 1 --scratch "$SCRATCH" --json "$SCRATCH/work.jsonl" >"$SCRATCH/table" \
    2>"$SCRATCH/log" || fail "$(cat "$SCRATCH/log")"
cat "$SCRATCH/table"
for target in memfs mount; do
    expect_equal "figures of work on $target" "$(jq -s "map(select(.figure == \"work\" and .series == \"$target\" and
        .y > 0)) | length" "$SCRATCH/work.jsonl")" 12
done

# What neighbours wait: each of two, for five operations, while each of four tools runs and before it.
"$programs/pandofs-bench" neighbours --pandofs "$PANDOFS" --entries 3000 --idle 0.1 --scratch "$SCRATCH" \
    --json "$SCRATCH/neighbours.jsonl" >"$SCRATCH/table" 2>"$SCRATCH/log" || fail "$(cat "$SCRATCH/log")"
cat "$SCRATCH/table"
expect_equal 'figures of neighbours' "$(jq -s 'map(select(.count > 0 and .most_us > 0)) | length' \
    "$SCRATCH/neighbours.jsonl")" 80

# Two mounts that cache differently, each phase of one round.
"$programs/pandofs-bench" caches --pandofs "$PANDOFS" --files 60 --rounds 1 --scratch "$SCRATCH" \
    --json "$SCRATCH/caches.jsonl" >"$SCRATCH/table" 2>"$SCRATCH/log" || fail "$(cat "$SCRATCH/log")"
cat "$SCRATCH/table"
for cache in timeouts leases; do
    expect_equal "figures with $cache" "$(jq -s "map(select(.figure == \"caches\" and .series == \"$cache\" and .y > 0)) |
        length" "$SCRATCH/caches.jsonl")" 7
done

# Every phase of one round, for each number of jobs.
"$programs/pandofs-bench" data --pandofs "$PANDOFS" --targets mount --size 8 --rounds 1 --jobs 1,2 \
    --scratch "$SCRATCH" --json "$SCRATCH/data.jsonl" >"$SCRATCH/table" 2>"$SCRATCH/log" || fail "$(cat "$SCRATCH/log")"
cat "$SCRATCH/table"
for phase in write write-forced read-below read-cold; do
    expect_equal "figures of $phase" "$(jq -s "map(select(.phase == \"$phase\" and .bytes_per_second > 0)) | length" \
        "$SCRATCH/data.jsonl")" 2
done

# Each commit protocol: what is counted is what the protocols are made of, and so the same however fast it is.
"$programs/pandofs-bench" commit --pandofs "$PANDOFS" --operations 20 --files 160 --clients 2 --rounds 1 --log 0.1 \
    --recoveries 1 --undecided 0,20 --undecided-log 0.1 --scratch "$SCRATCH" --json "$SCRATCH/commit.jsonl" --plots "$SCRATCH/plots" >"$SCRATCH/table" 2>"$SCRATCH/log" ||
    fail "$(cat "$SCRATCH/log")"
cat "$SCRATCH/table"
for claim in 'three messages' 'five messages' 'four records'; do
    expect_equal "the claim of $claim" "$(jq -s "map(select(.kind == \"claim\" and (.claim | startswith(\"$claim\"))) |
        .holds) | tojson" -r "$SCRATCH/commit.jsonl")" '[true]'
done
for figure in commit-counts commit-throughput; do
    for protocol in s2pc-mp 2pc 3pc; do
        expect_equal "figures of $figure with $protocol" "$(jq -s "map(select(.figure == \"$figure\" and
            .series == \"$protocol\" and .y > 0)) | length" "$SCRATCH/commit.jsonl")" 4
    done
    [[ -s $SCRATCH/plots/$figure-ratios.svg ]] || fail "$figure-ratios is not drawn"
done

expect_equal 'recoveries with undecided operations' "$(jq -s 'map(select(.figure == "commit-recovery-undecided" and
    .series == "until all have ended" and .y > 0) | .x) | tojson' -r "$SCRATCH/commit.jsonl")" '[0,20]'

"$programs/examples/wire_bench" --rounds 1 --seconds 0.05
"$programs/examples/store_bench" --ops 2000
"$programs/examples/log_bench" --ops 500 --dir "$SCRATCH"

# What 'make bench-walk' runs: the paper's figures, on real ranks too where there is MPI, and other walkers, as far as they
# are installed.
"$programs/pandofs-walk-bench" tree balanced --files 300 "$SCRATCH/tree"
real=()
if command -v mpirun >/dev/null && [[ -x $programs/pandofs-mpi ]]; then
    export TMPDIR=/tmp
    real=(--real "$SCRATCH/tree" --pandofs-mpi "$programs/pandofs-mpi" --processes 1,3 --rounds 1)
fi
"$programs/pandofs-walk-bench" figures --divide 10000 --out "$SCRATCH/figures.html" "${real[@]}" 2>"$SCRATCH/log" ||
    fail "$(cat "$SCRATCH/log")"
for figure in 'Figure 3a' 'Figure 3b' 'Figure 4' 'Figure 5' 'Figure 6'; do
    grep -q "$figure" "$SCRATCH/figures.html" || fail "no $figure"
done
# Two charts of time and of traffic, and four maps and histograms, of each kind of ranks; two of simulated ones alone.
sides=$((${#real[@]} > 0 ? 2 : 1))
expect_equal charts "$(grep -o '<svg' "$SCRATCH/figures.html" | wc -l)" $((12 * sides + 2))
CACHES=warm FILES=700 ROUNDS=1 REAL=$SCRATCH/tree ../../scripts/bench-walk.sh "$programs/pandofs-walk-bench" "$PANDOFS-walk" \
    "$SCRATCH/walked" >"$SCRATCH/table"
cat "$SCRATCH/table"
for walker in find pandofs floor uring2 uring8 ignore du; do
    expect_equal "trees of $walker" "$(grep -c "^  $walker  *[0-9.]* (" "$SCRATCH/table")" 3
done
expect_equal 'trees with a cold cache' "$(grep -c 'cold cache' "$SCRATCH/table")" 0
grep -q '^  1 process .*, 8 processes .* times as much$' "$SCRATCH/table" ||
    grep -q '^processes were not measured' "$SCRATCH/table" || fail 'nothing on processes'

# Walkers that fail are not measured, and those that see another number are named; ours that fails ends it.
mkdir "$SCRATCH/walkers"
printf '#!/bin/sh\necho "no such option" >&2\nexit 3\n' >"$SCRATCH/walkers/diskus"
printf '#!/bin/sh\necho\n' >"$SCRATCH/walkers/bfs"
printf "#!/bin/sh\necho '  \"entries\": 5,'\n" >"$SCRATCH/walkers/pandofs"
chmod +x "$SCRATCH"/walkers/*
bench_walk() {
    PATH=$SCRATCH/walkers:$PATH CACHES=warm FILES=700 ROUNDS=1 REAL=$SCRATCH/tree WALKERS="find pandofs bfs diskus" \
        ../../scripts/bench-walk.sh "$programs/pandofs-walk-bench" "$1" "$SCRATCH/walked"
}
bench_walk "$PANDOFS-walk" >"$SCRATCH/table" || fail 'a walker that fails ends it for all'
cat "$SCRATCH/table"
expect_equal 'failures' "$(grep -c '^  not measured: diskus ended with 3: no such option$' "$SCRATCH/table")" 3
expect_equal 'other numbers' "$(grep -c '^  bfs sees 1 entries, find [0-9]*$' "$SCRATCH/table")" 3
! grep -q '^  diskus ' "$SCRATCH/table" || fail 'a walker that fails is measured'
! bench_walk "$SCRATCH/walkers/diskus" >"$SCRATCH/table" 2>"$SCRATCH/error" || fail 'pandofs may fail'
grep -q '^pandofs, on .*/balanced, ended with 3: no such option$' "$SCRATCH/error" || fail "$(cat "$SCRATCH/error")"
! bench_walk "$SCRATCH/walkers/pandofs" >"$SCRATCH/table" 2>"$SCRATCH/error" || fail 'pandofs may see less'
grep -q '^pandofs sees 5 entries of .*/balanced, find [0-9]*$' "$SCRATCH/error" || fail "$(cat "$SCRATCH/error")"
