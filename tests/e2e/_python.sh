# What the tests of the library for Python share: after ./_common.sh.
LIBRARY=$(cd ../.. && pwd)
PYTHON_CRATE=$LIBRARY/crates/processes/python
# Where the package is.
SITE=$SCRATCH/site
export PYTHONPATH=$SITE PYTHONDONTWRITEBYTECODE=1

# use_environment NAME: the interpreter of that environment is $PYTHON.
use_environment() {
    PYTHON=$("$LIBRARY/scripts/cargo-target.sh")/programs/$1/bin/python
    [[ -x $PYTHON ]] || fail "there is no $PYTHON: scripts/deps.sh installs it"
}

# install_wheel: makes the wheel, whose path is then $WHEEL, and puts what it holds in its place.
install_wheel() {
    WHEEL=$("$LIBRARY/scripts/wheel.sh" --out "$SCRATCH/dist" --profile "${PANDOFS_PROFILE:-release}")
    expect 'installing the wheel' "$PYTHON" -m pip install --quiet --no-deps --no-index --no-compile --target "$SITE" "$WHEEL"
}

# run_page PYTHON PAGE: the first example of a page of docs prints what the page says, but for the place of the cluster.
run_page() {
    local page=$LIBRARY/docs/$2 out
    awk '/^```python$/ { on = 1; next } /^```/ { if (on) exit } on' "$page" | sed "s|/var/tmp/pando|$DATA|" >"$SCRATCH/page.py"
    out=$("$1" "$SCRATCH/page.py")
    expect_equal "what the example of $2 prints" "$out" \
        "$(awk '/^```text$/ { on = 1; next } /^```/ { if (on) exit } on' "$page")"
}

# run_tests TEST...: those files of the crate's tests.
run_tests() {
    local code=0
    PANDOFS_CLUSTER=$DATA/cluster.json PANDOFS_MOUNT=$MNT "$PYTHON" -X dev -m pytest --quiet --no-header -p no:cacheprovider \
        --timeout=300 --basetemp="$SCRATCH/tmp" --rootdir="$PYTHON_CRATE" --durations=5 "${@/#/$PYTHON_CRATE/tests/}" \
        >"$SCRATCH/pytest.txt" 2>&1 || code=$?
    [[ $code -eq 0 ]] || fail "pytest ended with $code: $(tail -n 150 "$SCRATCH/pytest.txt")"
    say "$(tail -n 1 "$SCRATCH/pytest.txt")"
}
CORE_TESTS=(test_files.py test_names.py test_batches.py test_processes.py test_servers.py test_fsspec.py)
