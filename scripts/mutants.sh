#!/bin/bash
# mutants.sh CRATE [PART]: changes the code of a crate (its name without `pandofs-`) in every small way that cargo-mutants knows,
# one at a time, and says which of these its tests do not notice. PART, as 0/8, is one of so many parts: a crate takes half an
# hour to an hour of a processor for each 500 changes. TMPDIR is where its copy of the sources is built: a RAM disk with
# 1 GB is fastest. Each change and what its tests said are in target/mutants/CRATE, beside what cargo builds; it ends with 2 if
# one was missed.
set -euo pipefail
cd "$(dirname "$0")/.."
crate=$1
target=$(scripts/cargo-target.sh)
PATH=$target/programs/bin:$PATH
out=$target/mutants/$crate
mkdir -p "$out"
# It builds in a copy of its own, of which nothing is to be found here later.
unset CARGO_TARGET_DIR
# Some tests draw thousands of histories: they take a tenth of the time when they are optimised a little. Nobody looks at these
# programs with a debugger.
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0
# Conformance suites are tests themselves: planted faults look after those. Examples in the documentation, and programs, are
# not built each time.
exec cargo mutants --package "pandofs-$crate" --output "$out" --no-shuffle --exclude '**/suite.rs' --exclude '**/suite/**' \
    ${2:+--shard "$2"} --cargo-arg=--tests
