#!/bin/bash
# bench-walk.sh BENCH PANDOFS FOLDER: measures `pandofs walk` beside other walkers, each doing the same job (lstat of
# every entry), in turns, so that what else the machine does meets all alike. Three trees, each with a warm cache, and, as
# root, with a cold one; then how much memory it takes, and how much more of the processors 8 processes take than one. FOLDER
# is made, and removed again. FILES=N makes other trees than of a million files, TREES=PATH takes `balanced` and `skewed`
# that are there, REAL=PATH another real tree than /usr; ROUNDS=N are other rounds than 5; WALKERS="find NAME…" are some of
# the walkers, the first being the unit; ALSO="NAME=COMMAND" are others, one a line, with {} for the tree, as in
# ALSO="dwalk=mpirun -n 2 dwalk {}"; CACHES=warm leaves the cold ones out. What is not installed is named. So is who fails
# on a tree, and is not measured on it, and who sees another number of entries than the unit; if that is the unit or
# ours, it ends there.
set -euo pipefail
bench=$(realpath "$1")
pandofs=$(realpath "$2")
folder=$3
files=${FILES:-1000000}
rounds=${ROUNDS:-5}
real=${REAL:-/usr}
caches=${CACHES:-warm cold}
if [[ $caches == *cold* && ! -w /proc/sys/vm/drop_caches ]]; then
    echo "only root can measure with a cold cache: left out"
    caches=warm
fi

for program in "$bench" "$pandofs"; do
    [[ -x $program ]] || { echo "$program is no program" >&2; exit 1; }
done

mkdir "$folder"
trap 'rm -rf --one-file-system "$folder"' EXIT
made=${TREES:-$folder}
if [[ ! -d $made/balanced ]]; then
    "$bench" tree balanced --files "$files" "$made/balanced"
    "$bench" tree skewed --files $((files * 7 / 10)) "$made/skewed"
fi

read -ra names <<<"${WALKERS:-find pandofs floor uring2 uring8 ignore bfs fd du dust pdu diskus dua}"
declare -A commands=(
    [find]='find TREE -size +999999G'
    [pandofs]="$pandofs walk --threads 2 --json TREE"
    [floor]="$bench floor --threads 2 TREE"
    [uring2]="$bench floor --io-uring 2 --threads 2 TREE"
    [uring8]="$bench floor --io-uring 8 --threads 2 TREE"
    [ignore]="$bench ignore --threads 2 TREE"
    [bfs]='bfs TREE -size +999999G'
    [fd]='fd --unrestricted --threads 2 --size +1t . TREE'
    [du]='du -s TREE'
    [dust]='dust --threads 2 --depth 0 TREE'
    [pdu]='pdu --threads 2 --max-depth 1 TREE'
    [diskus]='diskus --threads 2 TREE'
    [dua]='dua --threads 2 aggregate TREE'
)
while IFS='=' read -r name command; do
    [[ -n $name ]] || continue
    [[ -n $command && -z ${commands[$name]:-} ]] || { echo "ALSO: '$name' is no new walker with a command" >&2; exit 1; }
    names+=("$name")
    commands[$name]=${command//'{}'/TREE}
done < <(sed 's/^ *//' <<<"${ALSO:-}")
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

# is_ours WALKER: whether nothing is measured without it, or it is part of this project. (io_uring may be forbidden.)
is_ours() {
    [[ $1 == "${names[0]}" || $1 == pandofs || $1 == floor ]]
}

# seen WALKER TREE: how many entries it says there are, the root too; nothing if it does not say. What it printed last is
# in $folder/out.
seen() {
    case $1 in
        find | bfs) "$1" "$2" -printf '\n' | wc -l ;;
        fd) echo $(($(${commands[fd]%% *} --unrestricted --threads 2 --print0 . "$2" | tr -cd '\0' | wc -c) + 1)) ;;
        # Files with several names by each of them.
        du) du -al0 "$2" | tr -cd '\0' | wc -c ;;
        pandofs) sed -n 's/^ *"entries": \([0-9]*\),$/\1/p' "$folder/out" ;;
        # Ours, and as dwalk says it.
        *) sed -n -e 's/^\([0-9]*\) entries, .*/\1/p' -e 's/.* Items: \([0-9]*\)$/\1/p' "$folder/out" ;;
    esac 2>/dev/null
}

# warm WALKER TREE: lets it go through a tree once, so that caches are warm, and looks whether it does all of it: a walker that
# fails would be the fastest.
warm() {
    local name=$1 tree=$2 command=${commands[$1]//TREE/$2} code=0 entries
    # shellcheck disable=SC2086 # a command is words
    $command >"$folder/out" 2>"$folder/error" || code=$?
    # In a tree that others use, something may be gone meanwhile or may not be read.
    if [[ $code -ne 0 && ! ($code -eq 1 && $tree == "$real") ]]; then
        # The last that it said: before that, some tell of their progress on one line that they write again and again.
        failed[$name]="ended with $code: $(tr '\r' '\n' <"$folder/error" | grep '[^[:space:]]' | tail -n 1 | cut -c 1-200 || true)"
        ! is_ours "$name" || stop "$name, on $tree, ${failed[$name]}"
        return
    fi
    entries=$(seen "$name" "$tree" || true)
    [[ $name != "${names[0]}" ]] || unit=$entries
    if [[ $entries != "$unit" ]] && [[ -n $entries || $name == pandofs || $name == floor ]]; then
        others[$name]=${entries:-none}
        # Nobody changes the trees that were made.
        [[ $tree == "$real" ]] || ! is_ours "$name" ||
            stop "$name sees ${others[$name]} entries of $tree, ${names[0]} $unit"
    fi
}

stop() {
    echo "$*" >&2
    exit 1
}

# compare TREE CACHE: all walkers on it.
compare() {
    local tree=$1 cache=$2 name command took user system round base middle least most used load unit=
    local -A ratios=() processors=() failed=() others=()
    local missing=()
    for ((round = 0; round <= rounds; round++)); do
        base=
        for name in "${names[@]}"; do
            command=${commands[$name]//TREE/$tree}
            if ! command -v "${command%% *}" >/dev/null; then
                [[ $round -gt 0 ]] || missing+=("$name")
                continue
            fi
            if [[ $round -eq 0 ]]; then
                warm "$name" "$tree"
                continue
            fi
            [[ -z ${failed[$name]:-} ]] || continue
            if [[ $cache == cold ]]; then
                sync
                echo 3 >/proc/sys/vm/drop_caches
            fi
            # It has done it once: what it says now is of what has changed since.
            read -r took user system < <({ time $command >/dev/null 2>&1 || true; } 2>&1)
            # The first of each round is find, the unit.
            base=${base:-$took}
            ratios[$name]+=" $(divide "$base" "$took")"
            processors[$name]+=" $(awk -v a="$user" -v b="$system" 'BEGIN { print a + b }')"
        done
    done
    read -r load _ </proc/loadavg
    echo "$tree, $cache cache, load $load: times as fast as GNU find, median of $rounds rounds (least to most), and seconds of processors"
    for name in "${names[@]}"; do
        [[ -n ${ratios[$name]:-} ]] || continue
        # shellcheck disable=SC2086 # numbers are words
        read -r middle least most < <(median ${ratios[$name]})
        # shellcheck disable=SC2086
        read -r used _ < <(median ${processors[$name]})
        printf '  %-8s %s (%s to %s)  %s s\n' "$name" "$middle" "$least" "$most" "$used"
    done
    for name in "${!others[@]}"; do
        echo "  $name sees ${others[$name]} entries, ${names[0]} $unit"
    done
    for name in "${!failed[@]}"; do
        echo "  not measured: $name ${failed[$name]}"
    done
    [[ ${#missing[@]} -eq 0 ]] || echo "  not installed: ${missing[*]}"
}

TIMEFORMAT='%R %U %S'
trees=("$made/balanced" "$made/skewed" "$real")
for cache in $caches; do
    for tree in "${trees[@]}"; do
        compare "$tree" "$cache"
    done
done

if [[ -x /usr/bin/time ]]; then
    echo "most memory at once, MiB"
    for tree in "${trees[@]}"; do
        { /usr/bin/time -o "$folder/memory" -f %M "$pandofs" walk --threads 2 "$tree" || true; } >/dev/null 2>&1
        awk -v tree="$tree" 'END { printf "  %s  %.1f\n", tree, $1 / 1024 }' "$folder/memory"
    done
else
    echo "memory was not measured: there is no /usr/bin/time"
fi

mpi=$(dirname "$pandofs")/pandofs-mpi
if [[ -x $mpi ]] && command -v mpirun >/dev/null; then
    echo "${trees[0]}: seconds of processors, the launcher's included, median of $rounds rounds (least to most)"
    "$bench" processes --pandofs-mpi "$mpi" --processes 8 --rounds "$rounds" "${trees[0]}"
else
    echo "processes were not measured: there is no mpirun, or no pandofs-mpi"
fi
