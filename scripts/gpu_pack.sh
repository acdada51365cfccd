#!/bin/bash
# scripts/gpu_pack.sh DIR: packs a build's needs for scripts/gpu_check.sh on a machine without
# packages. Copies to DIR all that ringlet and its tests need besides compilers, CUDA and Python.
# These are libraries, Meson, ninja, pkg-config, and the real data of RINGLET_DATA if that is set.
set -uo pipefail
. "$(dirname "$0")/setup.sh"
help_wanted "$@" && exit
if [ $# -ne 1 ]; then
  echo "expected one folder: scripts/gpu_pack.sh DIR" >&2
  exit 2
fi
architecture=$(gcc -print-multiarch)

headers() {
  local to=$1 entry
  for entry in doctest fmt minizip nlohmann openssl toml++ utf8proc.h zconf.h zlib.h; do
    cp -rL "/usr/include/$entry" "$to/include/" || return 1
  done
  cp -rL "/usr/include/$architecture/openssl/." "$to/include/openssl/"
  cp -rL /usr/include/eigen3/Eigen "$to/include/" || return 1
  for entry in /usr/local/cuda/include/nccl.h /usr/include/nccl.h; do
    [ ! -f "$entry" ] || { cp -L "$entry" "$to/include/" && break; }
  done
}

libraries() {
  local to=$1 entry
  for entry in crypto minizip utf8proc z; do
    cp "/usr/lib/$architecture/lib$entry.a" "$to/lib/" || return 1
  done
}

programs() {
  local to=$1 python mesonbuild
  cp -L "$(command -v pkg-config)" "$(command -v ninja)" "$to/bin/" || return 1
  ldd "$to/bin/pkg-config" | awk '/libpkgconf/ {print $3}' | xargs -r -I{} cp -L {} "$to/lib/"
  python=$(sed -n '1s/^#! *//p' "$(command -v meson)")  # the Python that has its modules
  mesonbuild=$($python -c 'import mesonbuild, os; print(os.path.dirname(mesonbuild.__file__))') || return 1
  mkdir -p "$to/meson" && cp -r "$mesonbuild" "$to/meson/" || return 1
  find "$to/meson" -name __pycache__ -prune -exec rm -r {} +
  cat >"$to/meson/meson.py" <<'PY'
import sys
from mesonbuild import mesonmain
sys.exit(mesonmain.main())
PY
  printf '#!/bin/sh\nexec python3 "$(dirname "$(readlink -f "$0")")/../meson/meson.py" "$@"\n' >"$to/bin/meson"
  chmod +x "$to/bin/meson"
}

# Each file gives paths relative to its folder.
pkg_config_files() {
  local to=$1 package flags defines
  while read -r package flags; do
    case $package in
      fmt) defines=-DFMT_HEADER_ONLY ;;
      tomlplusplus) defines=-DTOML_HEADER_ONLY=1 ;;
      *) defines= ;;
    esac
    cat >"$to/pkgconfig/$package.pc" <<PC
Name: $package
Description: packed by gpu_pack.sh
Version: $(pkg-config --modversion "$package" 2>/dev/null || echo 0)
Cflags: -I\${pcfiledir}/../include $defines
Libs: $flags
PC
  done <<'PACKAGES'
doctest
eigen3
fmt
nlohmann_json
libcrypto -L${pcfiledir}/../lib -lcrypto -ldl -pthread
libutf8proc -L${pcfiledir}/../lib -lutf8proc
minizip -L${pcfiledir}/../lib -lminizip -lz
tomlplusplus
zlib -L${pcfiledir}/../lib -lz
PACKAGES
}

to=$1
mkdir -p "$to/include" "$to/lib" "$to/pkgconfig" "$to/bin" || exit 1
headers "$to" && libraries "$to" && programs "$to" && pkg_config_files "$to" || exit 1
git rev-parse HEAD >"$to/commit"
[ -z "${RINGLET_DATA:-}" ] || cp -rL "$RINGLET_DATA" "$to/data"
