#!/bin/sh
# run.sh BUILD SCRIPT ARGS...: runs SCRIPT with the module of BUILD.
# $PYTHON (python3) needs PyTorch and the packages that its tests import. Exit code 77: skipped.
set -eu
build=$1
shift
python=${PYTHON:-python3}
export PYTHONPATH="$build/train/python"
"$python" -c 'import torch.distributed, expecttest, hypothesis, ringlet' 2> /dev/null ||
  { echo "skipped: there is no PyTorch with expecttest and hypothesis in $python"; exit 77; }

# The name of the compiled backend has the library's path and time: it is compiled again only when that changes.
root=$build/torch
rm -rf "$root/root"
meson install -C "$build" --no-rebuild --quiet --tags devel --destdir "$root/root"
pc=$(find "$root/root" -name ringlet.pc)
sed -i "s|^prefix=\(.*\)|prefix=$root/root\1|" "$pc"  # the copy is not where it says it is
rm -f "$(dirname "$pc")"/../libringlet.so*
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH XDG_CACHE_HOME="$root" OMP_NUM_THREADS=1
exec "$python" "$@"
