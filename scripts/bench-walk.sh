#!/bin/bash
# bench-walk.sh BENCH PANDOFS FOLDER: measures `pandofs walk` beside other walkers, each doing the same job (lstat of
# every entry), in turns, so that what else the machine does meets all alike. FOLDER is made, and removed again. FILES=N
# makes other trees than of a million files, ROUNDS=N other rounds than 5, REAL=PATH takes another real tree than /usr;
# COLD=1 drops the caches before each run. Programs that are not installed are left out and named.
set -euo pipefail
bench=$(realpath "$1")
pandofs=$(realpath "$2")
folder=$3
files=${FILES:-1000000}
rounds=${ROUNDS:-5}
real=${REAL:-/usr}

mkdir "$folder"
trap 'rm -rf --one-file-system "$folder"' EXIT
"$bench" tree balanced --files "$files" "$folder/balanced"
"$bench" tree skewed --files $((files * 7 / 10)) "$folder/skewed"

names=(find pandofs floor ignore bfs fd du dust pdu diskus dua)
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
    [dua]='dua --threads 2 aggregate TREE'
)
# Debian calls it something else.
if ! command -v fd >/dev/null && command -v fdfind >/dev/null; then
    commands[fd]=${commands[fd]/fd /fdfind }
fi

# divide A B: with three digits behind the point.
divide() {
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / (b > 0 ? b : 0.001) }'
}

# median NUMBERS: the middle one, the least and the largest.
median() {
    printf '%s\n' "$@" | sort -n |
        awk '{ all[NR] = $1 } END { printf "%.2f %.2f %.2f\n", all[int((NR + 1) / 2)], all[1], all[NR] }'
}

for tree in "$folder/balanced" "$folder/skewed" "$real"; do
    declare -A ratios=() processors=()
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
            TIMEFORMAT='%R %U %S'
            # A walker that meets what may not be read, or is gone meanwhile, ends with another code than 0.
            read -r took user system < <({ time $command >/dev/null 2>&1 || true; } 2>&1)
            # The first of each round is find, the unit. Round 0 warms the caches.
            base=${base:-$took}
            [[ $round -gt 0 ]] || continue
            ratios[$name]+=" $(divide "$base" "$took")"
            processors[$name]+=" $(awk -v a="$user" -v b="$system" 'BEGIN { print a + b }')"
        done
    done
    echo "$tree: times as fast as GNU find, median of $rounds rounds (least to most), and seconds of processors"
    for name in "${names[@]}"; do
        [[ -n ${ratios[$name]:-} ]] || continue
        # shellcheck disable=SC2086 # numbers are words
        read -r middle least most < <(median ${ratios[$name]})
        # shellcheck disable=SC2086
        read -r used _ < <(median ${processors[$name]})
        printf '  %-8s %s (%s to %s)  %s s\n' "$name" "$middle" "$least" "$most" "$used"
    done
    [[ ${#missing[@]} -eq 0 ]] || echo "  not installed: ${missing[*]}"
    unset ratios processors
done
