#!/bin/bash
# wheel.sh [--out FOLDER] [--profile PROFILE]: makes pandofs-*.whl, for Python 3.9 and later, in dist or that folder, and prints
# its path.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/dist
profile=release
while [[ $# -gt 0 ]]; do
    case $1 in
    --out) out=$(realpath -m "$2") ;;
    --profile) profile=$2 ;;
    *)
        echo "wheel: unknown option '$1' (--out FOLDER, --profile PROFILE)" >&2
        exit 2
        ;;
    esac
    shift 2
done
scripts/deps.sh wheel >&2
maturin=$(scripts/cargo-target.sh)/programs/maturin/bin/maturin
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$maturin" build --quiet --locked --profile "$profile" --manifest-path crates/processes/python/Cargo.toml --out "$made" >&2
mkdir -p "$out"
for wheel in "$made"/*.whl; do
    mv "$wheel" "$out/"
    echo "$out/$(basename "$wheel")"
done
