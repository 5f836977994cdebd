#!/bin/bash
# Whoever upgrades PandoFS replaces the program's file while a cluster runs. A server that ends then is started again from
# the file that the cluster was started from, and not from whatever is in its place.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

installed=$SCRATCH/pandofs
cp "$PANDOFS" "$installed"
PANDOFS=$installed start_cluster
echo before >"$MNT/file"
for new in another none; do
    rm "$installed"
    if [[ $new == another ]]; then
        printf '#!/bin/sh\nexit 1\n' >"$installed"
        chmod +x "$installed"
    fi
    for server in 0 1 2 3; do
        kill_server "$server"
    done
    expect_equal "the file, with $new in place of the program" "$(<"$MNT/file")" before
    echo "with $new" >"$MNT/$new"
done
expect_equal 'a new file' "$(<"$MNT/none")" 'with none'
check_online
stop_cluster
