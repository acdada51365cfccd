#!/bin/bash
# scripts/gpu_pack.sh DIR: copies what a build of ringlet needs beside compilers, meson and CUDA to
# DIR, for scripts/gpu_check.sh on a machine that has no packages.
set -uo pipefail

# Headers and static libraries, with pkg-config files that name the folder they lie in, and
# pkg-config itself.
pack() {
  local to=$1 architecture entry package flags
  architecture=$(gcc -print-multiarch)
  mkdir -p "$to/include" "$to/lib" "$to/pkgconfig" "$to/bin" || return 1
  for entry in CLI doctest fmt nlohmann openssl utf8proc.h zconf.h zlib.h; do
    cp -rL "/usr/include/$entry" "$to/include/" || return 1
  done
  cp -rL "/usr/include/$architecture/openssl/." "$to/include/openssl/" || return 1
  for entry in crypto utf8proc z; do
    cp "/usr/lib/$architecture/lib$entry.a" "$to/lib/" || return 1
  done
  cp -L "$(command -v pkg-config)" "$to/bin/" || return 1
  ldd "$to/bin/pkg-config" | awk '/libpkgconf/ {print $3}' | xargs -r -I{} cp -L {} "$to/lib/"
  while read -r package flags; do
    cat >"$to/pkgconfig/$package.pc" <<PC
Name: $package
Description: packed by gpu_check.sh
Version: $(pkg-config --modversion "$package" 2>/dev/null || echo 0)
Cflags: -I\${pcfiledir}/../include $([ "$package" = fmt ] && echo -DFMT_HEADER_ONLY)
Libs: $flags
PC
  done <<'PACKAGES'
CLI11
doctest
fmt
nlohmann_json
libcrypto -L${pcfiledir}/../lib -lcrypto -ldl -pthread
libutf8proc -L${pcfiledir}/../lib -lutf8proc
zlib -L${pcfiledir}/../lib -lz
PACKAGES
}

pack "${1:?needs a folder}"
