#!/bin/bash
# mutants.sh CRATE [PART]: changes the code of a crate (its name without `pandofs-`) in every small way that cargo-mutants knows,
# one at a time, and says which of these its tests do not notice. PART, as 0/8, is one of so many parts: most crates take hours.
# Each change and what its tests said are in target/mutants/CRATE, beside what cargo builds; it ends with 2 if one was missed.
set -euo pipefail
cd "$(dirname "$0")/.."
crate=$1
target=$(scripts/cargo-target.sh)
PATH=$target/programs/bin:$PATH
out=$target/mutants/$crate
mkdir -p "$out"
# It builds in a copy of its own, of which nothing is to be found here later.
unset CARGO_TARGET_DIR
exec cargo mutants --package "pandofs-$crate" --output "$out" --no-shuffle ${2:+--shard "$2"}
