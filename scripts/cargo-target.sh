#!/bin/bash
# Prints the folder that cargo builds into, wherever it was told to.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ -n ${CARGO_TARGET_DIR:-} ]]; then
    echo "$CARGO_TARGET_DIR"
else
    cargo metadata --format-version 1 --no-deps --offline 2>/dev/null |
        grep -o '"target_directory":"[^"]*"' | cut -d '"' -f 4 || echo "$PWD/target"
fi
