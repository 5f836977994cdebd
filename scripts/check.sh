#!/bin/bash
# check.sh [BASE]: what a change needs before anything longer is run: formatting, the house rules, that the whole workspace
# compiles, and clippy and the unit tests of the crates that differ from BASE (the last commit unless given). Built without
# optimisation, which compiles faster; `make test` has the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-HEAD}
git rev-parse --quiet --verify "$base^{commit}" >/dev/null || {
    echo "check: there is no commit '$base'; give one, as in: make check BASE=main" >&2
    exit 2
}

mapfile -t files < <(
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
)
declare -A folders=()
for file in "${files[@]}"; do
    case $file in
    crates/*/*/*) folders[$(cut -d / -f 1-3 <<<"$file")]=1 ;;
    xtask/*) folders[xtask]=1 ;;
    esac
done
packages=()
libraries=()
programs=()
for folder in "${!folders[@]}"; do
    # A crate that was removed has nothing to be checked.
    [[ -f $folder/Cargo.toml ]] || continue
    package=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml" | head -n 1)
    packages+=(--package "$package")
    if [[ -f $folder/src/lib.rs ]]; then
        libraries+=(--package "$package")
    else
        programs+=(--package "$package")
    fi
done

cargo fmt --all --check
cargo xtask check
cargo check --quiet --workspace --all-targets
if [[ ${#packages[@]} -eq 0 ]]; then
    echo "check: no crate differs from $base"
    exit 0
fi
echo "check: clippy and unit tests, ${packages[*]}"
cargo clippy --quiet "${packages[@]}" --all-targets -- -D warnings
if [[ ${#libraries[@]} -gt 0 ]]; then
    cargo test --quiet "${libraries[@]}" --lib
fi
if [[ ${#programs[@]} -gt 0 ]]; then
    cargo test --quiet "${programs[@]}" --bins
fi
