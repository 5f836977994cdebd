#!/bin/bash
# soak.sh PANDOFS MINUTES: kills servers of a cluster at random moments for so long while clients work, and after each kill
# checks all that was acknowledged, and with fsck that nothing is inconsistent. It prints each round as it goes.
# PANDOFS_SEED draws the moments; without it the clock does, and it is printed.
set -euo pipefail
PANDOFS=$(realpath "$1")
PANDOFS_MINUTES=$2
PANDOFS_SEED=${PANDOFS_SEED:-$(date +%s)}
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/pandofs-soak.XXXXXX")
export PANDOFS PANDOFS_MINUTES PANDOFS_SEED SCRATCH
trap 'rm -rf --one-file-system "$SCRATCH"' EXIT
echo "soak: $PANDOFS_MINUTES minutes with PANDOFS_SEED=$PANDOFS_SEED"
cd "$(dirname "$0")/../tests/e2e"
bash kill.sh </dev/null
