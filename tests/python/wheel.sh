#!/bin/sh
# wheel.sh PYTHON FOLDER: builds the wheel of PYTHON in FOLDER. It has at most 12 MB, needs no libraries but those of every
# Linux, and passes the tests of the module in a new virtual environment. There CMake finds it for a C++ program.
# The backend of torch.distributed is compiled against it alone, for the PyTorch of $PYTHON. Without one a compiler that
# keeps its arguments stands in. Exit code 77 if pip reaches no registry.
set -eu
folder=$2
rm -rf "$folder/venv" "$folder/lab" "$folder"/*.whl
"$1" -m venv "$folder/venv"
PATH=$folder/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
export PATH PIP_DISABLE_PIP_VERSION_CHECK PIP_QUIET
pip install --retries 1 auditwheel ||
  { echo "skipped: pip cannot install auditwheel; a package registry may be out of reach"; exit 77; }
source=$(dirname "$0")/../..
# In a folder beside the build folder, and with its options, a compilation has the same command: ccache runs it once.
pip wheel --no-deps --wheel-dir "$folder" --config-settings=build-dir="$(dirname "$folder")-wheel" \
  --config-settings=setup-args=-Dwerror=true "$source"
wheel=$(echo "$folder"/ringlet-*.whl)
auditwheel show "$wheel" | tee "$folder/auditwheel.log"
grep -q manylinux "$folder/auditwheel.log"
stat -c '%s bytes' "$wheel"
[ "$(stat -c %s "$wheel")" -le 12000000 ]
pip install "$wheel"
if command -v cmake > /dev/null; then
  cmake -S "$source/tests/embed/project" -B "$folder/lab" -Dringlet_DIR="$(python -m ringlet --cmake-dir)"
  cmake --build "$folder/lab"
  ldd "$folder/lab/lab" | grep "libringlet.*$folder/venv"
  "$folder/lab/lab"
fi
export XDG_CACHE_HOME="$folder/cache"
if torch=$("${PYTHON:-python3}" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' 2> /dev/null); then
  PYTHONPATH=$torch OMP_NUM_THREADS=1 python "$source/tests/python/pytorch/training.py"
else
  mkdir -p "$folder/stub/torch"
  printf '__version__ = "0"\nclass _C: _GLIBCXX_USE_CXX11_ABI = True\n' > "$folder/stub/torch/__init__.py"
  : > "$folder/stub/torch/distributed.py"
  printf '#!/bin/sh\nprintf "%%s\\n" "$@" > "%s/arguments"\nexit 1\n' "$folder" > "$folder/stub/c++"
  chmod +x "$folder/stub/c++"
  rm -f "$folder/arguments"
  PYTHONPATH=$folder/stub CXX=$folder/stub/c++ python -c 'import ringlet.torch' 2>&1 | grep "could not be compiled"
  test -f "$(sed -n 's|^-I||p' "$folder/arguments")/ringlet/comm/group.h"
  test -f "$(grep "^$folder/venv.*/libringlet" "$folder/arguments")"
fi
RINGLET_PROGRAM=$folder/venv/bin/ringlet exec python "$source/tests/python/module.py"
