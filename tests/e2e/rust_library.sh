#!/bin/bash
# The library for Rust: the page's example is the one that was built, runs, and prints what the page says.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SOURCES=$(cd ../.. && pwd)
PAGE=$SOURCES/docs/rust-library.md
EXAMPLE=${PANDOFS%/*}/examples/trees
[[ -x $EXAMPLE ]] || fail "there is no $EXAMPLE: 'make e2e' builds it"

# block LANGUAGE: what the page has in it.
block() {
    awk -v begin="\`\`\`$1" '$0 == begin { on = 1; next } /^```/ { on = 0 } on' "$PAGE"
}
expect_equal 'how the page differs from the example' \
    "$(diff <(block rust) "$SOURCES/crates/processes/client/examples/trees.rs")" ''
start_cluster --servers 2
expect_equal 'what it prints' "$("$EXAMPLE" "$DATA/cluster.json")" "$(block text)"
expect_equal 'files on the mount' "$(find "$MNT/trees" -type f -size 8c | wc -l)" 47000
expect_refused 'which cluster?' "$EXAMPLE"
check_online
stop_cluster
