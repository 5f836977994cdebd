#!/bin/bash
# deny.sh: what deny.toml says of the libraries: their licences, where they come from, and known vulnerabilities. The database of
# these is on the network: without it they are left out, which is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$(scripts/cargo-target.sh)/programs/bin:$PATH

# What is there twice is not shown: `cargo deny check bans` has a page for each.
cargo deny check --hide-inclusion-graph --allow duplicate licenses bans sources
if log=$(cargo deny fetch db 2>&1); then
    cargo deny check --disable-fetch --hide-inclusion-graph advisories
else
    echo "deny: vulnerabilities were not looked for, as their database cannot be had:"
    tail -n 1 <<<"$log"
fi
