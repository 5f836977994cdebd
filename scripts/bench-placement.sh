#!/bin/bash
# bench-placement.sh PANDOFS OUT COMMIT: measures placement policies on clusters on this machine, and writes a
# report to the directory OUT that has what the model makes of the same beside it. FILES (10000), CLIENTS (8, for
# what compares policies and servers), CROWDS (1 8 64 clients) and SERVERS (1 2 4 8) say how much.
set -euo pipefail
pandofs=$(realpath "$1")
out=$2
commit=$3
files=${FILES:-10000}
clients=${CLIENTS:-8}
read -ra crowds <<<"${CROWDS:-1 8 64}"
read -ra counts <<<"${SERVERS:-1 2 4 8}"
mkdir -p "$out"
out=$(realpath "$out")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/pandofs-placement.XXXXXX")
up=
finish() {
    [[ -z $up ]] || { kill -INT "$up" 2>/dev/null || true; wait "$up" 2>/dev/null || true; }
    rm -rf --one-file-system "$scratch"
}
trap finish EXIT
: >"$out/live.jsonl"

# on_cluster SERVERS POLICY COMMAND...: with a new cluster in $data, whose policy for files is $file_policy.
file_policy=with-entry
on_cluster() {
    local servers=$1 policy=$2 deadline=$((SECONDS + 60))
    shift 2
    data=$(mktemp -d "$scratch/data.XXXXXX")/cluster
    "$pandofs" up --servers "$servers" --policy "$policy" --file-policy "$file_policy" --data "$data" --no-mount --no-restart >"$scratch/up.log" 2>&1 &
    up=$!
    until "$pandofs" status --data "$data" >/dev/null 2>&1; do
        if ! kill -0 "$up" 2>/dev/null || [[ $SECONDS -ge $deadline ]]; then
            cat "$scratch/up.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    "$@"
    # What was measured while a server was away is no figure.
    if ! "$pandofs" status --data "$data" >/dev/null; then
        cat "$scratch/up.log" >&2
        exit 1
    fi
    kill -INT "$up"
    if ! wait "$up"; then
        cat "$scratch/up.log" >&2
        exit 1
    fi
    up=
    rm -rf --one-file-system "$(dirname "$data")"
}

# measure WHAT NAME [CLIENTS]
measure() {
    "$pandofs" bench "$1" --data "$data" --clients "${3:-$clients}" --files "$files" --commit "$commit" \
        --json "$out/live.jsonl"
    "$pandofs" status --data "$data" --json >"$out/status-$2.json"
}

# macro1 TITLE POLICY NAME: a section of the report.
macro1() {
    echo "$1"
    echo
    echo '```text'
    on_cluster 4 "$2" measure macro1 "$3"
    echo '```'
    jq -r '"\([.servers[].requests] | add) requests (by server: \([.servers[].requests | tostring] | join(", "))), \([.servers[].distributed] | add) distributed operations, \([.servers[].peer_messages] | add) messages between servers"' \
        "$out/status-$3.json"
}

{
    echo "# Placement, live and modelled"
    echo
    echo "Commit $commit. What is measured, and how to read it: pandofs bench --help, pandofs model --help."
    for policy in random subtree ddg:4,16 adaptive; do
        echo
        macro1 "## macro1, 4 servers, $policy" "$policy" "${policy//[:,]/-}"
    done
    # Files that are not with their entries, as the dir-grain paper has them.
    file_policy=ddg:8
    echo
    macro1 "## macro1, 4 servers, ddg:4,16, files $file_policy" ddg:4,16 files-ddg-8
    file_policy=with-entry
    for servers in "${counts[@]}"; do
        echo
        echo "## metarates (one directory), $servers servers"
        echo
        echo '```text'
        on_cluster "$servers" ddg:4,16 measure metarates "metarates-$servers"
        echo '```'
    done
    for crowd in "${crowds[@]}"; do
        echo
        echo "## macro2, 4 servers, ddg:4,16, $crowd clients"
        echo
        echo '```text'
        on_cluster 4 ddg:4,16 measure macro2 "macro2-$crowd" "$crowd"
        echo '```'
    done
    echo
    echo "## Live and modelled"
    echo
    echo '```text'
    "$pandofs" model --live "$out/live.jsonl" --costs measured --out "$out" --commit "$commit"
    echo '```'
} >"$out/report.md"
cat "$out/report.md"
