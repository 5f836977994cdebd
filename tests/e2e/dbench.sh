#!/bin/bash
# dbench: four clients do what those of a file server do, on the mount, with extended attributes and with
# directories synced.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# Seconds of load for each run, after as much to warm up.
LOAD=8
CLIENTS=4

# run_dbench WHAT [OPTION]...
run_dbench() {
    local what=$1 folder=$MNT/dbench output code=0
    shift
    mkdir "$folder"
    output=$(dbench --directory="$folder" --timelimit="$LOAD" "$@" "$CLIENTS" 2>&1) || code=$?
    [[ $code -eq 0 ]] || fail "dbench $* ended with $code: $(tail -n 20 <<<"$output")"
    expect_contains "dbench $*" "$output" 'Throughput '
    ! grep -E '^\[[0-9]+\] |ERROR' <<<"$output" || fail "dbench $* complained"
    expect_equal 'what it left behind' "$(find "$folder" -type f)" ''
    rm -r "$folder"
    say "$what: $(grep '^Throughput' <<<"$output")"
}

start_cluster
run_dbench "$CLIENTS clients"
run_dbench "$CLIENTS clients with extended attributes" --xattr
run_dbench "$CLIENTS clients that sync directories and files" --sync-dir --fsync
check_online
stop_cluster
