#!/bin/bash
# A Python virtual environment on the mount: made with pip in it, packages installed into it, run, compiled,
# upgraded and removed, and the environment used again after everything was stopped and started.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

MODULES=200

start_cluster
environment=$MNT/environment
python=$environment/bin/python

# wheel VERSION: a package of many modules, and a program, as a wheel that needs nothing else.
wheel() {
    python3 - "$SCRATCH" "$1" "$MODULES" <<'PYTHON'
import base64, hashlib, sys, zipfile

folder, version, modules = sys.argv[1], sys.argv[2], int(sys.argv[3])
info = f"grove-{version}.dist-info"
total = " + ".join(f"m{i}.VALUE" for i in range(modules))
files = {f"grove/m{i}.py": f"VALUE = {i}\n" + "# filler\n" * (i * 7) for i in range(modules)}
files["grove/__init__.py"] = f"__version__ = '{version}'\n"
files["grove/main.py"] = (
    "from . import __version__, " + ", ".join(f"m{i}" for i in range(modules))
    + f"\ndef main():\n    print(__version__, {total})\n"
)
files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: grove\nVersion: {version}\n"
files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
files[f"{info}/entry_points.txt"] = "[console_scripts]\ngrove = grove.main:main\n"
record = f"{info}/RECORD"
lines = []
for name, text in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    lines.append(f"{name},sha256={digest},{len(text.encode())}")
files[record] = "\n".join(lines + [f"{record},,"]) + "\n"
with zipfile.ZipFile(f"{folder}/grove-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
    for name, text in files.items():
        archive.writestr(name, text)
PYTHON
}

pip() {
    "$python" -m pip --disable-pip-version-check --no-cache-dir --quiet "$@" 2>&1
}

# check_grove VERSION: it runs, and its files are those of the wheel.
check_grove() {
    expect_equal 'what the program prints' "$("$environment/bin/grove")" "$1 $((MODULES * (MODULES - 1) / 2))"
    expect_equal 'its version' "$("$python" -c 'import importlib.metadata as m; print(m.version("grove"))')" "$1"
    # pip does not compare what it installed with its records.
    "$python" - <<'PYTHON'
import base64, hashlib, importlib.metadata
for file in importlib.metadata.distribution("grove").files:
    if file.hash:
        digest = hashlib.new(file.hash.mode, file.locate().read_bytes()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value, file
PYTHON
}

wheel 1.0
wheel 2.0
expect 'make a virtual environment' python3 -m venv "$environment"
expect_equal 'where its Python is at home' "$("$python" -c 'import sys; print(sys.prefix)')" "$environment"
say "$(find "$environment" -type f | wc -l) files in a new environment"

expect 'install a package' pip install --no-index "$SCRATCH/grove-1.0-py3-none-any.whl"
check_grove 1.0
expect 'pip check' pip check
expect 'compile all modules' "$python" -m compileall -q -f -j 2 "$environment/lib"
# Python believes a compiled module when its source's time and size are those that it notes.
expect 'run from compiled modules' "$python" -c '
import importlib.util, grove.m7, pathlib, struct
cached = pathlib.Path(importlib.util.cache_from_source(grove.m7.__file__)).read_bytes()
source = pathlib.Path(grove.m7.__file__).stat()
assert struct.unpack("<II", cached[8:16]) == (int(source.st_mtime), source.st_size)'
say 'a package is installed, compiled and run'

expect 'upgrade the package' pip install --no-index --upgrade "$SCRATCH/grove-2.0-py3-none-any.whl"
check_grove 2.0
stop_cluster
start_cluster
check_grove 2.0
say 'it is upgraded, and there after everything was stopped and started'

expect 'remove the package' pip uninstall --yes grove
[[ -z $(find "$environment" -name '*grove*') ]] || fail "left behind: $(find "$environment" -name '*grove*')"
expect 'make the environment anew' python3 -m venv --clear --copies "$environment"
expect_equal 'what a copied Python prints' "$("$python" -c 'print(6 * 7)')" 42
rm -r "$environment"
check_online
stop_cluster
