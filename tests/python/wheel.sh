#!/bin/sh
# wheel.sh PYTHON FOLDER: builds the wheel of PYTHON in FOLDER. It has at most 12 MB, needs no libraries but those of every
# Linux, and passes the tests of the module in a new virtual environment. Exit code 77 if pip reaches no registry.
set -eu
folder=$2
rm -rf "$folder/venv" "$folder"/*.whl
"$1" -m venv "$folder/venv"
PATH=$folder/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
export PATH PIP_DISABLE_PIP_VERSION_CHECK PIP_QUIET
pip install --retries 1 auditwheel ||
  { echo "skipped: pip cannot install auditwheel; a package registry may be out of reach"; exit 77; }
source=$(dirname "$0")/../..
pip wheel --no-deps --wheel-dir "$folder" --config-settings=build-dir="$folder/build" "$source"
wheel=$(echo "$folder"/ringlet-*.whl)
auditwheel show "$wheel" | tee "$folder/auditwheel.log"
grep -q manylinux "$folder/auditwheel.log"
stat -c '%s bytes' "$wheel"
[ "$(stat -c %s "$wheel")" -le 12000000 ]
pip install "$wheel"
RINGLET_PROGRAM=$folder/venv/bin/ringlet exec python "$source/tests/python/module.py"
