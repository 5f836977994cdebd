#!/bin/bash
# deny.sh: what deny.toml says of the libraries: their licences, where they come from, versions that are there twice (as
# warnings), and known vulnerabilities. The database of these is on the network: without it they are left out, which is
# printed. Without cargo-deny, where it cannot be installed, it ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=$(scripts/cargo-target.sh)/programs
PATH=$programs/bin:$PATH
if ! command -v cargo-deny >/dev/null; then
    echo "deny: installing cargo-deny"
    cargo install --quiet --locked --root "$programs" cargo-deny >&2 || {
        echo "deny: cargo-deny cannot be installed" >&2
        exit 77
    }
fi

# Who needs a library that is there twice is a page for each: `cargo deny check bans` shows that.
cargo deny check --hide-inclusion-graph licenses bans sources
if log=$(cargo deny fetch db 2>&1); then
    cargo deny check --disable-fetch --hide-inclusion-graph advisories
else
    echo "deny: vulnerabilities were not looked for, as their database cannot be had:"
    tail -n 1 <<<"$log"
fi
