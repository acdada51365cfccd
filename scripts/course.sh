#!/bin/bash
# Prints a lesson of the course with its page of docs/lessons.md, builds what it needs and runs it:
#   scripts/course.sh 09                    lesson 9
#   scripts/course.sh 09 --device cuda      on a GPU
# Exercises of a lesson:
#   scripts/course.sh 09 --start            writes course/09.cpp, with gaps to fill in
#   scripts/course.sh 09 --check            compiles it and says what is wrong
#   scripts/course.sh 09 --solution         prints a solution
# The course as one page, course/index.html:
#   scripts/course.sh --html
# Lessons 19 and 20 need nvcc, and no GPU. Missing packages are installed as by scripts/test.sh.
# BUILD=DIR uses the build folder DIR. Without it and without build/, the course makes build-course/: it
# has no CUDA and one set of kernels, and so is built in two minutes.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
! help_wanted "$@" || exit 0
cd "$root"

lesson=${1:-}
[[ $lesson != [0-9] ]] || lesson=0$lesson
files=(tests/tutorial/"$lesson"_*.c*)
if [[ $lesson != --html ]] && ! [[ $lesson =~ ^[0-9][0-9]$ && -f ${files[0]} ]]; then
  lessons=$(cd tests/tutorial && printf '%s ' [0-9][0-9]_*.c*)
  echo "course.sh: expected a lesson's number, found '$lesson'; lessons: $lessons" >&2
  exit 2
fi
shift
if [[ $lesson != --html && ! ${1:-} =~ ^(--start|--check|--solution|--device(=.*)?)?$ ]]; then
  echo "course.sh: expected --start, --check, --solution or --device, found '$1'" >&2
  exit 2
fi
own=("${1:-}")  # the arguments that are not a program's
[[ $lesson != --html ]] || own=()
if [[ $lesson${1:-} =~ --(start|check|solution|html) ]] && [ $# -gt ${#own[@]} ]; then
  echo "course.sh: expected no argument after ${own[*]:---html}, found '${*: -1}'" >&2
  exit 2
fi

build=${BUILD:-build}
smallest=()
if [[ -z ${BUILD:-} && ! -d build && ${files[0]} != *.cu ]]; then
  build=build-course
  smallest=(-Dcuda=disabled -Dbench=disabled -Dpython=disabled)
  isa=$(instruction_set)
  [ -n "${RINGLET_ISA:-}" ] || smallest+=("-Disa=${isa/avx512/avx2}")
fi
has_target() { ninja -C "$build" -t query "$1" >/dev/null 2>&1; }
prepare() {  # configures if there is no build yet, or one without tests
  has_target "$1" && return
  require_packages "${build_packages[@]}" "${test_packages[@]}"
  configure "$build" -Dtests=enabled "${smallest[@]}" >&2
}

case $lesson${1:-} in
  --html)
    prepare tests/tutorial
    programs=(tests/tutorial train/cli/ringlet)
    ! has_target tests/emulated/kernel_lessons || programs+=(tests/emulated/kernel_lessons)
    ninja -C "$build" "${programs[@]}" >&2
    mkdir -p course
    scripts/course_page.py "$build" >course/index.html.part
    mv course/index.html.part course/index.html
    echo "wrote course/index.html"
    exit ;;
  *--start | *--solution) exec scripts/exercise.py "$build" "$lesson" "$1" ;;
  *--check)
    prepare tests/exercises
    # The libraries of the program of solutions, without the solutions.
    mapfile -t libraries < <(ninja -C "$build" -t query tests/exercises | sed -nE 's/^ *\| ([^/].*\.(a|symbols))$/\1/p')
    ninja -C "$build" "${libraries[@]:?}" | grep -Ev 'no work|Entering' >&2 || true
    exec scripts/exercise.py "$build" "$lesson" --check ;;
esac

program=tests/tutorial
[[ ${files[0]} != *.cu ]] || program=tests/emulated/kernel_lessons
prepare "$program"
# The first two lessons need a part of the library, if the rest is not there yet.
[[ $lesson > 02 || -x $build/$program ]] || program=tests/first_lessons
awk -v lesson="$lesson" '/^## / { on = $2 == lesson } on' docs/lessons.md
cat "${files[0]}"
echo
ninja -C "$build" "$program" >&2
exec "$build/$program" --minimal --test-case="$lesson*" "$@"
