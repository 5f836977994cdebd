#!/bin/bash
# fuzz.sh SECONDS [TARGET...]: gives each decoder of bytes from network or disk (crates/proof/formats), or those named, to
# libFuzzer for so many seconds. What it learns is kept beside what cargo builds, in fuzz/corpus; bytes that a decoder
# fails on are left in fuzz/artifacts there, and the command that shows the failure again is printed.
#
# It needs a nightly compiler for the instrumentation, and cargo-fuzz. Where one of them is not there and cannot be
# installed it says so and ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=$1
shift

cannot() {
    echo "fuzz: $*" >&2
    exit 77
}

if ! cargo +nightly --version >/dev/null 2>&1; then
    command -v rustup >/dev/null 2>&1 || cannot "there is no nightly compiler, and no rustup to install one"
    rustup toolchain install nightly --profile minimal >&2 ||
        cannot "no nightly compiler can be installed, and stable has no instrumentation"
fi
target=$(scripts/cargo-target.sh)
programs=$target/programs
if ! [[ -x $programs/bin/cargo-fuzz ]]; then
    echo "fuzz: installing cargo-fuzz"
    cargo install --quiet --locked --root "$programs" cargo-fuzz >&2 || cannot "cargo-fuzz cannot be installed"
fi
PATH=$programs/bin:$PATH
# Its own folder: cargo-fuzz builds everything with other options.
export CARGO_TARGET_DIR=$target/fuzz
mkdir -p "$CARGO_TARGET_DIR/artifacts" "$CARGO_TARGET_DIR/logs"

cargo run --quiet --release --manifest-path fuzz/Cargo.toml --no-default-features --bin corpus \
    "$CARGO_TARGET_DIR/corpus" >"$CARGO_TARGET_DIR/targets"
if [[ $# -eq 0 ]]; then
    mapfile -t targets <"$CARGO_TARGET_DIR/targets"
else
    targets=("$@")
fi
cargo +nightly fuzz build --fuzz-dir fuzz >&2 || cannot "the fuzz targets cannot be built with this toolchain"

failed=()
for name in "${targets[@]}"; do
    log=$CARGO_TARGET_DIR/logs/$name.txt
    # No input is longer than what one message may be, and none may take much memory or time.
    if cargo +nightly fuzz run --fuzz-dir fuzz "$name" "$CARGO_TARGET_DIR/corpus/$name" -- \
        -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=1024 -malloc_limit_mb=64 -timeout=10 \
        -artifact_prefix="$CARGO_TARGET_DIR/artifacts/$name-" -print_final_stats=1 >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
        covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
        printf 'ok      %-20s %10s runs, %6s places reached\n' "$name" "$runs" "$covered"
    else
        printf 'FAILED  %-20s\n' "$name"
        grep -E 'panicked|ERROR|SUMMARY|Test unit written' -A 2 "$log" | sed 's/^/        /' || tail -n 20 "$log"
        echo "        see it again: cargo +nightly fuzz run --fuzz-dir fuzz $name FILE"
        failed+=("$name")
    fi
done
echo
echo "fuzz: ${#targets[@]} decoders for $seconds s each, ${#failed[@]} failed"
[[ ${#failed[@]} -eq 0 ]]
