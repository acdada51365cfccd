#!/bin/sh
# installed.sh headers|meson|cmake BUILD PROJECT: installs BUILD into a temporary folder and checks
# its headers, or builds PROJECT against it and runs its program. Exit code 77: skipped.
set -eu
part=$1 build=$2 project=$3
for tool in meson pkg-config $(test "$part" = cmake && echo cmake); do
  command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$work/root"
pc=$(find "$work/root" -name ringlet.pc)
sed -i "s|^prefix=\(.*\)|prefix=$work/root\1|" "$pc"  # the copy is not where it says it is
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
include=$(pkg-config --variable=includedir ringlet)

# A header needs nothing that was not installed, nothing included before it, and of foreign
# headers only the standard library's.
check_headers() {
  status=0
  cd "$include"
  foreign=$(grep -rnE '#include <[^>]*[./]' . || true)
  [ -z "$foreign" ] || { echo "not the standard library's:"; echo "$foreign"; status=1; }
  find ringlet.h ringlet -name '*.h' > "$work/headers"
  echo "$(wc -l < "$work/headers") headers"
  xargs -P 2 -I{} sh -c 'echo "#include \"{}\"" |
    $CXX $CXXFLAGS -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I . -x c++ - ||
    { echo "{} does not compile on its own"; exit 1; }' < "$work/headers" || status=1
  return $status
}

case $part in
  headers) check_headers ;;
  meson)
    meson setup "$work/build" "$project"
    meson compile -C "$work/build"
    "$work/build/lab"
    ;;
  cmake)
    cmake -S "$project" -B "$work/build" -DCMAKE_BUILD_TYPE=Release
    cmake --build "$work/build"
    "$work/build/lab"
    ;;
esac
