#!/bin/bash
# cargo builds a workspace of twelve crates on the mount, without a network: with a build script, a macro crate,
# dynamic and static libraries, tests and incremental compilation. What it builds runs, and it builds again just
# what depends on a file that was changed.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

LIBRARIES=8

start_cluster
project=$MNT/project
export CARGO_HOME=$MNT/cargo-home CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never CARGO_INCREMENTAL=1
unset CARGO_TARGET_DIR RUSTFLAGS CARGO_BUILD_TARGET_DIR
mkdir "$project" "$CARGO_HOME"

# crate NAME KIND [DEPENDENCY]...: an empty crate of the workspace; KIND is what its [lib] says.
crate() {
    local name=$1 kind=$2 dependency
    shift 2
    mkdir -p "$project/$name/src"
    {
        printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n' "$name"
        [[ -z $kind ]] || printf '[lib]\n%s\n' "$kind"
        printf '[dependencies]\n'
        for dependency in "$@"; do
            printf '%s = { path = "../%s" }\n' "$dependency" "$dependency"
        done
    } >"$project/$name/Cargo.toml"
}

cat >"$project/Cargo.toml" <<'TOML'
[workspace]
resolver = "2"
members = ["*"]
exclude = ["target"]
TOML
crate double 'proc-macro = true'
cat >"$project/double/src/lib.rs" <<'RUST'
//! A macro that a crate loads as a library while it is compiled.
#[proc_macro]
pub fn double(tokens: proc_macro::TokenStream) -> proc_macro::TokenStream {
    format!("(({tokens}) * 2)").parse().unwrap()
}
RUST
crate generated ''
cat >"$project/generated/build.rs" <<'RUST'
fn main() {
    println!("cargo:rerun-if-changed=values.txt");
    let sum: u64 = std::fs::read_to_string("values.txt").unwrap().lines().map(|l| l.parse::<u64>().unwrap()).sum();
    let out = std::path::Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("sum.rs");
    std::fs::write(out, format!("pub const SUM: u64 = {sum};")).unwrap();
}
RUST
seq 100 >"$project/generated/values.txt"
echo 'include!(concat!(env!("OUT_DIR"), "/sum.rs"));' >"$project/generated/src/lib.rs"
used=()
terms=
for ((i = 0; i < LIBRARIES; i++)); do
    crate "library$i" '' double
    cat >"$project/library$i/src/lib.rs" <<RUST
use std::collections::BTreeMap;
pub fn value() -> u64 {
    let squares: BTreeMap<u64, u64> = (0..100).map(|n| (n, double::double!(n * n))).collect();
    squares[&$i]
}
#[cfg(test)]
mod tests {
    #[test]
    fn square_is_doubled() {
        assert_eq!(super::value(), 2 * $i * $i);
    }
}
RUST
    used+=("library$i")
    terms+=" + library$i::value()"
done
crate shared 'crate-type = ["cdylib"]'
echo '#[unsafe(no_mangle)] pub extern "C" fn shared() -> u64 { 42 }' >"$project/shared/src/lib.rs"
crate program '' generated "${used[@]}"
echo "fn main() { println!(\"{}\", generated::SUM$terms); }" >"$project/program/src/main.rs"
sed -i '/^\[lib\]/d' "$project/program/Cargo.toml"

# build [OPTION]...: the crates that were compiled, sorted, are then in $compiled.
build() {
    local output
    output=$(cargo build --offline --manifest-path "$project/Cargo.toml" --workspace "$@" 2>&1) ||
        fail "cargo build: $output"
    compiled=$(sed -n 's/^ *Compiling \([a-z0-9]*\) .*/\1/p' <<<"$output" | sort | xargs)
}

wanted=$((5050 + 2 * (LIBRARIES - 1) * LIBRARIES * (2 * LIBRARIES - 1) / 6))
build
expect_equal 'crates' "$(wc -w <<<"$compiled")" $((LIBRARIES + 4))
expect_equal 'what the program prints' "$("$project/target/debug/program")" "$wanted"
say "cargo build compiled $((LIBRARIES + 4)) crates; the program prints $wanted"

build
expect_equal 'crates compiled when nothing changed' "$compiled" ''
echo '// changed' >>"$project/library3/src/lib.rs"
build
expect_equal 'crates compiled after one was changed' "$compiled" 'library3 program'
seq 200 >"$project/generated/values.txt"
build
expect_equal 'crates compiled after what a build script reads was changed' "$compiled" 'generated program'
wanted=$((wanted - 5050 + 20100))
expect_equal 'what the program prints then' "$("$project/target/debug/program")" "$wanted"
say 'built again what depends on a file, and nothing else'

# Two at once: the second waits for the lock of the first, and finds all of it done.
build --release &
first=$!
started+=("$first")
build --release
wait_for_end "$first"
expect_equal 'how the other build ended' "$CODE" 0
expect_equal 'what the optimized program prints' "$("$project/target/release/program")" "$wanted"
output=$(cargo test --offline --quiet --manifest-path "$project/Cargo.toml" --workspace 2>&1) || fail "cargo test: $output"
expect_equal 'tests' "$(grep --count '^test result: ok. 1 passed' <<<"$output")" "$LIBRARIES"
say 'built in two ways at once, and tested'

cargo clean --quiet --offline --manifest-path "$project/Cargo.toml"
[[ ! -e $project/target ]] || fail 'cargo clean left something behind'
check_online
stop_cluster
