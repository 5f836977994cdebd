#!/bin/bash
# PyTorch on the library for Python: its data set with workers, its rate beside a loop over a mount and over a local folder, and
# checkpoints through fsspec.
# only by name: PyTorch is some gigabytes from PyPI.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
# shellcheck source=tests/e2e/_python.sh
. ./_python.sh

expect 'what it runs' "$LIBRARY/scripts/deps.sh" python-torch
use_environment python-torch
install_wheel
start_cluster --servers 2
run_tests test_torch.py
expect 'the rates' "$PYTHON" "$PYTHON_CRATE/examples/small_files_rate.py" --cluster "$DATA/cluster.json" --mount "$MNT" \
    --local "$SCRATCH" --files "${PANDOFS_ENTRIES:-300}"
check_online
stop_cluster
