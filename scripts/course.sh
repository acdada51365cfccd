#!/bin/bash
# Prints a lesson of the course, builds what it needs and runs it:
#   scripts/course.sh 09                    lesson 9
#   scripts/course.sh 09 --device cuda      on a GPU; the arguments after the number are the program's
# Exercises of a lesson:
#   scripts/course.sh 09 --start            writes course/09.cpp, with gaps to fill in
#   scripts/course.sh 09 --check            compiles it and says what is wrong
#   scripts/course.sh 09 --solution         prints a solution
# Lesson 19 needs nvcc, and no GPU. Missing packages are installed as by scripts/test.sh. BUILD=DIR
# uses the build folder DIR.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
! help_wanted "$@" || exit 0
cd "$root"

lesson=${1:-}
files=(tests/tutorial/"$lesson"_*.c*)
if ! [[ $lesson =~ ^[0-9][0-9]$ && -f ${files[0]} ]]; then
  lessons=$(cd tests/tutorial && printf '%s ' [0-9][0-9]_*.c*)
  echo "course.sh: expected a lesson's number, found '$lesson'; lessons: $lessons" >&2
  exit 2
fi
shift

build=${BUILD:-build}
program=tests/tutorial
[[ ${files[0]} != *.cu ]] || program=tests/emulated/kernel_lesson
case ${1:-} in
  --start | --solution) exec scripts/exercise.py "$build" "$lesson" "$1" ;;
  --check) program=tests/exercises ;;
esac
if ! ninja -C "$build" -t query "$program" >/dev/null 2>&1; then  # no build yet, or one without tests
  require_packages "${build_packages[@]}" "${test_packages[@]}"
  configure "$build" -Dtests=enabled >&2
fi
if [[ $program = tests/exercises ]]; then
  ninja -C "$build" "$program" | grep -v 'no work' >&2 || true
  exec scripts/exercise.py "$build" "$lesson" --check
fi
cat "${files[0]}"
echo
ninja -C "$build" "$program" >&2
[[ $program = tests/tutorial ]] || exec "$build/$program" --minimal "$@"
exec "$build/$program" --minimal --test-case="$lesson*" "$@"
