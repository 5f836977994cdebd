#!/bin/bash
# A server goes away in the middle of renames that need it, and the others go on with theirs: a short run of the trial, which
# judges no rates here; `pandofs-trials away` says what it measures.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

TRIALS=${PANDOFS%/*}/pandofs-trials
[[ -x $TRIALS ]] || fail "$TRIALS is not there: cargo build --release --package pandofs-trials"
start_cluster --servers 4 --no-restart
expect 'the trial' timeout --kill-after=10 300 "$TRIALS" away --data "$DATA" --seconds 8 --reports 2 --rate 100 --lenient
stop_cluster
