#!/bin/bash
# The library for Python: files beside Python's own, names beside those of os, batches, processes that are forked, spawned or
# given a client, servers that are not there, and fsspec's own suite. (Its wheel, and what stands on it: python_data.sh.)
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
# shellcheck source=tests/e2e/_python.sh
. ./_python.sh

built=${PANDOFS%/*}/lib_pandofs.so
[[ -f $built ]] || fail "there is no $built: 'make e2e' builds it"
use_environment python-test
# As the wheel has it.
version=$("$PANDOFS" --version | awk '{ print $2 }')
mkdir -p "$SITE/pandofs-$version.dist-info"
cp -r "$PYTHON_CRATE/python/pandofs" "$SITE"
cp "$built" "$SITE/pandofs/_pandofs.abi3.so"
printf 'Metadata-Version: 2.1\nName: pandofs\nVersion: %s\n' "$version" >"$SITE/pandofs-$version.dist-info/METADATA"
awk '/^\[project\.entry-points\./ { gsub(/^.*entry-points\."|"\]$/, ""); print "[" $0 "]"; on = 1; next } /^$/ { on = 0 }
    on { gsub(/"/, ""); print }' "$PYTHON_CRATE/pyproject.toml" >"$SITE/pandofs-$version.dist-info/entry_points.txt"
expect_equal 'its version' "$("$PYTHON" -c 'import pandofs; print(pandofs.__version__)')" "$version"
! readelf -d "$built" | grep -q 'NEEDED.*python' || fail 'it is linked to an interpreter'

start_cluster --servers 2
run_page "$PYTHON" python.md
run_tests "${CORE_TESTS[@]}"
check_online
stop_cluster
