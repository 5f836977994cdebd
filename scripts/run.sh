#!/bin/bash
# run.sh PANDOFS [DEMO OPTIONS]: starts four servers and a mount in a scratch folder, shows them at
# work, stops them and removes the folder. Exits 0 only if everything was right.
set -euo pipefail
pandofs=$1
shift

scratch=$(mktemp -d "${TMPDIR:-/tmp}/pandofs-run.XXXXXX")
finish() {
    code=$?
    if mountpoint -q "$scratch/mount"; then
        "$pandofs" umount "$scratch/mount" || true
    fi
    if [[ $code -ne 0 && $code -ne 130 && $code -ne 143 && -d $scratch/data ]]; then
        # What the servers said is worth more than the room it takes; not when a person stopped it.
        kept=$(mktemp -d "${TMPDIR:-/tmp}/pandofs-run-logs.XXXXXX")
        (cd "$scratch/data" && find . -name '*log.txt' -exec cp --parents {} "$kept" \;)
        echo "run: failed; the servers' logs are in $kept" >&2
    fi
    rm -rf --one-file-system "$scratch"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$scratch/mount"
"$pandofs" up --servers 4 --data "$scratch/data" --mount "$scratch/mount" -- \
    "$pandofs" demo --data "$scratch/data" --mount "$scratch/mount" "$@"
