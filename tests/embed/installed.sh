#!/bin/sh
# installed.sh headers|meson|cmake BUILD PROJECT: installs BUILD into a temporary folder. Checks its
# headers, or builds PROJECT against it and runs its program. With CMake it also builds and runs the
# program of README.md. Exit code 77: skipped.
set -eu
part=$1 build=$2 project=$3
for tool in meson pkg-config python3 $(test "$part" = cmake && echo cmake); do
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

# first_block FILE LANGUAGE: the first code block of that language in a file of the documentation.
first_block() { awk "/^\`\`\`/ { if (on) exit; on = \$0 == \"\`\`\`$2\"; next } on" "$project/../../../$1"; }

build_with_cmake() {
  cmake -S "$1" -B "$2"
  cmake --build "$2"
  grep -q -e -O3 "$2/CMakeFiles/lab.dir/flags.make" || { echo "not optimised"; exit 1; }
}

case $part in
  headers) python3 "$project/../headers.py" "$include" ;;
  meson)
    meson setup "$work/build" "$project"
    meson compile -C "$work/build"
    "$work/build/lab"
    ;;
  cmake)
    build_with_cmake "$project" "$work/build"
    "$work/build/lab"
    mkdir "$work/readme"
    first_block docs/embed.md cmake > "$work/readme/CMakeLists.txt"
    first_block README.md cpp > "$work/readme/main.cpp"
    build_with_cmake "$work/readme" "$work/built"
    # Its model is a placeholder: one line names it, and the exit code is 2.
    "$work/built/lab" 2> "$work/error" && { echo "README: expected exit code 2, got 0"; exit 1; }
    test $? = 2 && grep -q "^path/to/mpnet-base: " "$work/error" && test "$(wc -l < "$work/error")" = 1 ||
      { echo "README: expected one line and exit code 2:"; cat "$work/error"; exit 1; }
    ;;
esac
