#!/bin/bash
# bench-walk.sh BENCH PANDOFS FOLDER: measures `pandofs walk` beside other walkers, each doing the same job (lstat of
# every entry), in turns, so that what else the machine does meets all alike. FOLDER is made, and removed again. FILES=N
# makes other trees than of a million files, ROUNDS=N other rounds than 5; COLD=1 drops the caches before each run.
# Programs that are not installed are left out and named.
set -euo pipefail
bench=$(realpath "$1")
pandofs=$(realpath "$2")
folder=$3
files=${FILES:-1000000}
rounds=${ROUNDS:-5}

mkdir "$folder"
trap 'rm -rf --one-file-system "$folder"' EXIT
"$bench" tree balanced --files "$files" "$folder/balanced"
"$bench" tree skewed --files $((files * 7 / 10)) "$folder/skewed"

names=(find pandofs floor ignore bfs fd du dust pdu diskus)
declare -A commands=(
    [find]='find TREE -size +999999G'
    [pandofs]="$pandofs walk --threads 2 --json TREE"
    [floor]="$bench floor --threads 2 TREE"
    [ignore]="$bench ignore --threads 2 TREE"
    [bfs]='bfs TREE -size +999999G'
    [fd]='fd --unrestricted --threads 2 --size +1t . TREE'
    [du]='du -s TREE'
    [dust]='dust --threads 2 --depth 0 TREE'
    [pdu]='pdu --threads 2 --max-depth 1 TREE'
    [diskus]='diskus --threads 2 TREE'
)
# Debian calls it something else.
if ! command -v fd >/dev/null && command -v fdfind >/dev/null; then
    commands[fd]=${commands[fd]/fd /fdfind }
fi

for tree in "$folder/balanced" "$folder/skewed" /usr; do
    declare -A ratios=()
    missing=()
    for ((round = 0; round <= rounds; round++)); do
        base=
        for name in "${names[@]}"; do
            command=${commands[$name]//TREE/$tree}
            if ! command -v "${command%% *}" >/dev/null; then
                [[ $round -gt 0 ]] || missing+=("$name")
                continue
            fi
            if [[ -n ${COLD:-} ]]; then
                sync
                echo 3 >/proc/sys/vm/drop_caches
            fi
            started=$EPOCHREALTIME
            if ! $command >/dev/null 2>&1; then
                echo "bench-walk: '$command' failed" >&2
                exit 1
            fi
            took=$(bc -l <<<"$EPOCHREALTIME - $started")
            # The first of each round is find, the unit. Round 0 warms the caches.
            base=${base:-$took}
            [[ $round -eq 0 ]] || ratios[$name]+=" $(bc -l <<<"scale=3; $base / $took")"
        done
    done
    echo "$tree: times as fast as GNU find, median of $rounds rounds (least to most)"
    for name in "${names[@]}"; do
        [[ -n ${ratios[$name]:-} ]] || continue
        printf '%s\n' ${ratios[$name]} | sort -n |
            awk -v name="$name" '{ all[NR] = $1 } END { printf "  %-8s %.2f (%.2f to %.2f)\n", name, all[int((NR + 1) / 2)], all[1], all[NR] }'
    done
    [[ ${#missing[@]} -eq 0 ]] || echo "  not installed: ${missing[*]}"
    unset ratios
done
