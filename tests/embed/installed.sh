#!/bin/sh
# installed.sh headers|all_headers|names|symbols|reference|meson|cmake|recipes|shared|subproject|archive BUILD PROJECT: installs
# BUILD into a temporary folder. Checks its headers, makes their reference, or builds PROJECT against it and runs
# its program. With CMake it also builds and runs the program of README.md. `subproject` has the
# source tree as a subproject of PROJECT instead, `recipes` as CMake's FetchContent and ExternalProject
# have it in docs/embed.md. `archive` is a release's. Exit code 77: skipped.
set -eu
part=$1 build=$2 project=$3
tree=$(cd "$project/../../.." && pwd)
for tool in meson pkg-config python3 $(case $part in reference) echo doxygen ;; symbols) echo g++ nm readelf ;; cmake | shared | recipes) echo cmake ninja ;; archive) echo git ;; esac); do
  command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$work/root"
pc=$(find "$work/root" -name ringlet.pc)
sed -i "s|^prefix=\(.*\)|prefix=$work/root\1|" "$pc"  # the copy is not where it says it is
PKG_CONFIG_PATH=$(dirname "$pc")
CMAKE_PREFIX_PATH=$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --variable=prefix ringlet)
export PKG_CONFIG_PATH CMAKE_PREFIX_PATH
include=$(pkg-config --variable=includedir ringlet)
libraries=$(pkg-config --variable=libdir ringlet)
# Each way finds one of the two libraries.
case $part in shared | symbols) rm "$libraries/libringlet.a" ;; *) rm -f "$libraries"/libringlet.so* ;; esac

# block FILE LANGUAGE NUMBER: a code block of that language in a file of the documentation.
block() { awk -v language="$2" -v wanted="$3" '/^```/ { on = !on && $0 == "```" language && ++n == wanted; next } on' "$tree/$1"; }

# build_with_meson SOURCE OPTIONS...
build_with_meson() {
  meson setup "$work/build" "$@"
  meson compile -C "$work/build"
  "$work/build/lab"
}

# build_with_cmake SOURCE FOLDER OPTIONS...
build_with_cmake() {
  source=$1 folder=$2
  shift 2
  cmake -S "$source" -B "$folder" "$@"
  cmake --build "$folder"
  grep -q -e -O3 "$folder/CMakeFiles/lab.dir/flags.make" || { echo "not optimised"; exit 1; }
}

# The model of README.md's program is a placeholder: one line names it, and the exit code is 2.
names_the_model() {
  "$1" 2> "$work/error" && { echo "README: expected exit code 2, got 0"; exit 1; }
  test $? = 2 && grep -q "^path/to/mpnet-base: " "$work/error" && test "$(wc -l < "$work/error")" = 1 ||
    { echo "README: expected one line and exit code 2:"; cat "$work/error"; exit 1; }
}

# The program finds the shared library by its version's name.
run_shared() {
  LD_LIBRARY_PATH=$libraries ldd "$1" | grep "libringlet.so.0.3 => $libraries/"
  LD_LIBRARY_PATH=$libraries "$1"
}

case $part in
  headers) python3 "$project/../headers.py" "$include" "$(git -C "$tree" rev-parse HEAD 2>/dev/null)" ;;
  all_headers) python3 "$project/../headers.py" "$include" ;;
  names)
    # shellcheck disable=SC2046  # flags are words
    ${CXX:-c++} -std=c++20 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags ringlet) "$project/../names.cpp"
    ;;
  symbols) python3 "$project/../symbols.py" "$include" "$libraries/libringlet.so" ;;
  reference)
    (cat "$tree/docs/Doxyfile" && echo "OUTPUT_DIRECTORY = $work") | INCLUDE=$include doxygen -
    grep -q "Reads a Sentence Transformers folder" "$work/html/classringlet_1_1models_1_1SentenceEncoder.html"
    ;;
  meson)
    build_with_meson "$project"
    export RINGLET_NUM_THREADS=1  # for products this small
    "$work/build/temperature"
    for ranks in 1 2; do "$build/train/ringlet" run -n $ranks "$work/build/decoder"; done
    ;;
  subproject)
    cp -r "$project" "$work/project"
    mkdir "$work/project/subprojects"
    ln -s "$tree" "$work/project/subprojects/ringlet"
    # The project finds the subproject and its headers; building the library again would take minutes.
    meson setup "$work/build" "$work/project" --force-fallback-for=ringlet -Dringlet:cuda=disabled
    ninja -C "$work/build" lab.p/main.cpp.o
    ninja -C "$work/build" -n lab | grep -q subprojects/ringlet/libringlet.a
    ;;
  cmake)
    build_with_cmake "$project" "$work/build"
    "$work/build/lab"
    mkdir "$work/readme"
    block docs/embed.md cmake 1 > "$work/readme/CMakeLists.txt"
    block README.md cpp 1 > "$work/readme/main.cpp"
    build_with_cmake "$work/readme" "$work/built"
    names_the_model "$work/built/lab"
    ;;
  recipes)
    # Compiling the library again would take minutes: its target is looked up only, and BUILD's is taken.
    mkdir -p "$work/tools" "$work/fetched" "$work/outer/lab"
    real=$(command -v ninja)
    printf '#!/bin/sh\n[ "$1" = -C ] || exec %s "$@"\n%s -C "$2" -n "$3" > /dev/null && cp "%s/$3" "$2"\n' \
      "$real" "$real" "$build" > "$work/tools/ninja"
    chmod +x "$work/tools/ninja"
    block docs/embed.md cmake 1 > "$work/outer/lab/CMakeLists.txt"
    block docs/embed.md cmake 2 > "$work/fetched/CMakeLists.txt"
    block docs/embed.md cmake 3 > "$work/outer/CMakeLists.txt"
    for folder in fetched outer; do
      ln -s "$tree" "$work/$folder/ringlet"
      block README.md cpp 1 | tee "$work/$folder/main.cpp" > "$work/outer/lab/main.cpp"
      PATH=$work/tools:$PATH CMAKE_PREFIX_PATH='' cmake -S "$work/$folder" -B "$work/$folder/built"
      PATH=$work/tools:$PATH CMAKE_PREFIX_PATH='' cmake --build "$work/$folder/built"
    done
    names_the_model "$work/fetched/built/lab"
    names_the_model "$work/outer/built/lab-prefix/src/lab-build/lab"
    ;;
  archive)
    meson dist -C "$build" --no-tests --allow-dirty --formats gztar
    tar -tzf "$build"/meson-dist/*.tar.gz | sed 's|^[^/]*/||; /^$/d; /\/$/d' | sort > "$work/archive"
    git -C "$tree" ls-tree -r --name-only HEAD | sort | diff - "$work/archive"
    ;;
  shared)
    build_with_cmake "$project" "$work/build" -DRINGLET=ringlet::shared
    run_shared "$work/build/lab"
    # shellcheck disable=SC2046  # flags are words
    ${CXX:-c++} -std=c++20 -O2 "$project/main.cpp" -o "$work/lab" $(pkg-config --cflags --libs ringlet)
    run_shared "$work/lab"
    ;;
esac
