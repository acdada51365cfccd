#!/bin/sh
# numpy2.sh PYTHON FOLDER ARGS...: runs PYTHON with ARGS and NumPy 2, in a virtual environment of PYTHON
# that the first call makes in FOLDER. Exit code 77, with the reason, if it cannot be made.
set -eu
python=$1 folder=$2
shift 2

skip() {
  echo "skipped: $1"
  rm -rf "$folder"
  exit 77
}

if ! "$folder/bin/python" -c 'import numpy; numpy.isdtype' 2>/dev/null; then
  rm -rf "$folder"
  "$python" -m venv "$folder" >/dev/null 2>&1 || skip "'$python -m venv' fails; Debian's package is python3-venv"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 15 'numpy>=2' ||
    skip "pip cannot install NumPy 2; a package registry may be out of reach"
fi
exec "$folder/bin/python" "$@"
