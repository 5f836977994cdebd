#!/bin/bash
# The wheel for Python, made, installed and looked at by mypy, with every interpreter that is there; all tests of python.sh
# with it; pandas, pyarrow, zarr and dask on it.
# only by name: it compiles the wheel, and loads half a gigabyte of libraries from PyPI.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
# shellcheck source=tests/e2e/_python.sh
. ./_python.sh

expect 'what it runs' "$LIBRARY/scripts/deps.sh" python-data
use_environment python-data
install_wheel
[[ $WHEEL == *-cp39-abi3-manylinux* ]] || fail "$WHEEL is not for Python 3.9 and later on any Linux"
expect_equal 'what it holds beside the library' "$(cd "$SITE" && find pandofs -name '*.py*' | sort)" \
    "$(cd "$PYTHON_CRATE/python" && find pandofs -name '*.py*' | sort)"
say "made $(basename "$WHEEL"), $(stat -c %s "$WHEEL") bytes"
expect 'the types' "$PYTHON" -m mypy --config-file "$PYTHON_CRATE/pyproject.toml" --cache-dir="$SCRATCH/mypy" -p pandofs
expect 'the types of what is in Rust' "$PYTHON" -m mypy.stubtest pandofs._pandofs

start_cluster --servers 2
shopt -s nullglob
for python in $(compgen -c python3. | grep -E '^python3\.[0-9]+$' | sort -u) "$HOME"/.pyenv/versions/3.*/bin/python3; do
    version=$("$python" -c 'import sys; print("%d.%02d" % sys.version_info[:2])' 2>/dev/null) || continue
    [[ $version > 3.08 ]] || continue
    run_page "$python" python.md
    rm -rf "$MNT/results"
    say "Python ${version/.0/.}: $python"
done
run_tests "${CORE_TESTS[@]}" test_data.py
check_online
stop_cluster
