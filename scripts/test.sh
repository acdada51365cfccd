#!/bin/bash
# Installs missing packages, builds, and runs checks:
#   scripts/test.sh                    the release build and its tests, the format, the prose
#   scripts/test.sh all                also longer tests, the sanitizers, the fuzzers, leaks
#   scripts/test.sh emulated [SUITE...] the tests on the emulated GPU only, for instance core (needs nvcc)
#   scripts/test.sh [all] ARGS...      passes ARGS to every `meson test`, for instance --suite, and after
#                                      all also names; checks that are no `meson test` do not run then
# Ends with the slowest tests and build steps, what was skipped and why, and "N passed, N failed, N
# skipped"; exit code 1 if something failed, or was skipped for a reason that tests/skips.txt lacks.
set -uo pipefail
. "$(dirname "$0")/setup.sh"
cd "$root"

help_wanted "$@" && exit
all=false emulated=false
case ${1:-} in
  all) all=true && shift ;;
  emulated) emulated=true && shift ;;
  "" | -*) ;;
  *)
    echo "test.sh: unknown argument '$1'; expected all, emulated or an option of meson test" >&2
    exit 2
    ;;
esac
test_arguments=("$@")
if $emulated; then
  test_arguments=(--suite=emulated)
  [ $# -eq 0 ] || test_arguments=("${@/#/--suite=emulated_}")
fi

setup=$($all && echo all || echo default)
passed=0 failed=0 skipped=0
failures=() folders=()
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

phase=0 phases=$($all && echo 5 || echo 2)
heading() { printf '\n== %d of %d: %s (%d s)\n' $((++phase)) "$phases" "$1" "$SECONDS"; }

# check NAME COMMAND...: runs one check and counts it as passed or failed.
check() {
  local name=$1
  shift
  if "$@" 2>&1 | tee "$logs/output"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+=("$name")
    mv "$logs/output" "$logs/$name"
  fi
}

# skip NAME REASON: counts a check that cannot run here.
skip() {
  skipped=$((skipped + 1))
  printf '%s\t%s\n' "$1" "$2" >>"$logs/skips"
}

# with_short_slices COMMAND...: beside busy programs Linux lets a rank that is woken wait for the end of
# their slices, 3 ms each; since 6.12 tasks with shorter slices go first. Others ignore the call.
with_short_slices() {
  python3 -c '
import ctypes, os, struct, sys
keep_policy, nanoseconds = 0x08, 100_000
attributes = struct.pack("=IIQiIQQQ", 48, 0, keep_policy, os.nice(0), 0, nanoseconds, 0, 0)
sched_setattr = 314  # on x86-64
ctypes.CDLL(None).syscall(sched_setattr, 0, attributes, 0)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

# run_tests NAME FOLDER ARGS...: runs `meson test` and counts its test cases.
run_tests() {
  local name=$1 folder=$2 counts p f s
  shift 2
  local log=$folder/meson-logs/testlog-$setup.json
  rm -f "$log"
  # Many tests mostly wait: one more at a time than there are processors. The limits of meson.build
  # are for programs that hang. A busy machine must not reach them, and one that hangs must leave
  # time for the rest.
  with_short_slices meson test -C "$folder" --num-processes $(($(nproc) + 1)) --timeout-multiplier 3 --print-errorlogs \
    --setup="$setup" "$@"
  local code=$?
  # No test of this build fits the arguments; another build may have one.
  if [ $code -eq 0 ] && [ ! -e "$log" ]; then return; fi
  counts=$(python3 scripts/test_log.py count "$log") || counts="0 1 0"
  read -r p f s <<<"${counts:-0 1 0}"
  if [ $code -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  python3 scripts/test_log.py skips "$log" >>"$logs/skips"
  cp "$log" "$logs/$name.ran"
  [ "$f" -eq 0 ] && return
  failures+=("$name")
  cp "$log" "$logs/$name.json"
}

# build NAME FOLDER OPTIONS... [-- TARGETS...]: false, with one failure counted, if the build fails.
build() {
  local name=$1 folder=$2 options=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  folders+=("$folder")
  configure "$folder" "${options[@]}" && ninja -C "$folder" "$@" && return
  failed=$((failed + 1))
  failures+=("$name: build")
  return 1
}

release_tests() {
  heading "release build, warnings are errors"
  # The emulated GPU interprets the kernels of one architecture.
  local architectures
  architectures=$(gpu_architectures)
  build release build --buildtype=release -Dwerror=true -Dtests=enabled \
    -Disa=portable,avx2,avx512 -Dgpu_arch="${architectures:-90a}" || return
  run_tests release build "${test_arguments[@]}"
}

format_check() {
  local tool files
  mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')
  if [ ${#files[@]} -eq 0 ]; then  # without files clang-format would succeed
    failed=$((failed + 1))
    failures+=("format: git lists no file")
    return
  fi
  for tool in clang-format-14 clang-format; do
    command -v $tool >/dev/null && $tool --version | grep -q 'version 14' || continue
    check format $tool --dry-run -Werror "${files[@]}"
    return
  done
  skip format "there is no clang-format 14"
}

# One build with clang is for both the sanitizers and the fuzzers.
sanitizer_tests() {
  heading "address and undefined behaviour sanitizers"
  # All instruction sets have the same sources: one is enough. For CUDA this is the host's side
  # only.
  local isa
  isa=$(instruction_set)
  local options=(-Dwerror=true -Doptimization=1 -Dcpp_args=-g1 -Dbench=disabled -Dcuda=auto -Dgpu_arch=
    -Dtests=enabled "-Disa=${isa/avx512/avx2}")
  unset RINGLET_DATA  # the release build reads the real data; here it would take too long
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  if command -v clang++ >/dev/null; then
    # ld.bfd takes almost five times as long to link comm_tests.
    if command -v ld.lld >/dev/null; then options+=(-Dcpp_link_args=-fuse-ld=lld); fi
    CXX=clang++ build sanitizers build-sanitizers "${options[@]}" -Dfuzzers=true || return
    run_tests "sanitizers and fuzzers" build-sanitizers "${test_arguments[@]}"
  else
    build sanitizers build-sanitizers "${options[@]}" -Db_sanitize=address,undefined || return
    run_tests sanitizers build-sanitizers "${test_arguments[@]}"
    skip fuzzers "there is no clang"
  fi
}

thread_tests() {
  heading "thread sanitizer on what has threads"
  build threads build-threads -Dwerror=true -Doptimization=1 -Dcpp_args=-g1 -Dbench=disabled \
    -Dcuda=auto -Dgpu_arch= -Dtests=enabled -Disa= -Dgloo=disabled -Db_sanitize=thread -- \
    tests/comm/comm_tests tests/thread_tests || return
  export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0  # a child of fork() has a separate pool
  run_tests threads build-threads --suite=threads --no-rebuild
}

leak_check() {
  heading "leaks in the course"
  command -v valgrind >/dev/null || { skip leaks "there is no valgrind"; return; }
  # valgrind does not support AVX-512. Lessons 6 and 7 would take a quarter of an hour in it; the
  # address sanitizer checks all lessons for leaks, too.
  check "leaks in the course" env RINGLET_ISA=portable RINGLET_NUM_THREADS=2 valgrind -q \
    --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=9 build/tests/tutorial \
    --test-case='01*,02*,03*' >/dev/null
}

# Trains from random weights on generated text, then encodes with the saved model.
short_run() {
  local work
  work=$(mktemp -d) || return 1
  build/train/ringlet train --model tiny --max-steps 30 --output "$work/run" &&
    echo "A dog runs." |
    build/train/ringlet encode - --model "$work/run/model" --output "$work/e.npy" &&
    [ -s "$work/run/metrics.jsonl" ] && [ -s "$work/run/curves.svg" ] && [ -s "$work/e.npy" ]
  local code=$?
  rm -rf "$work"
  return $code
}

require_packages "${build_packages[@]}" "${test_packages[@]}"
want_packages "${check_packages[@]}" $($all && echo "${sanitizer_packages[@]}")

if $emulated; then
  export RINGLET_EMULATED_REPORT=$root/build/emulated_kernels.jsonl
  rm -f "$RINGLET_EMULATED_REPORT"
fi
release_tests
if ! $emulated && [ ${#test_arguments[@]} -eq 0 ]; then
  heading "format, prose, a short run of the main job"
  format_check
  check prose scripts/prose.py
  check "short run" short_run
fi
if $all; then
  sanitizer_tests
  if [ ${#test_arguments[@]} -eq 0 ]; then
    thread_tests
    leak_check
  fi
fi

if $emulated && [ -s build/meson-logs/testlog-$setup.json ]; then
  printf '\n== cases by suite, and the kernels that they ran\n'
  python3 scripts/test_log.py table build/meson-logs/testlog-$setup.json
  [ ! -s "$RINGLET_EMULATED_REPORT" ] || python3 scripts/emulated_report.py "$RINGLET_EMULATED_REPORT" .
fi

printf '\n== done (%d s)\n' "$SECONDS"
mapfile -t ran < <(find "$logs" -name '*.ran')
python3 scripts/test_log.py slowest "${ran[@]}" "${folders[@]/%//.ninja_log}"
if [ -s "$logs/skips" ] && ! python3 scripts/test_log.py unlisted "$logs/skips" tests/skips.txt; then
  failed=$((failed + 1))
  failures+=("skips that tests/skips.txt does not list")
fi
rm -f "$logs/output" "$logs/skips" "${ran[@]}"
if [ ${#failures[@]} -ne 0 ]; then  # repeated at the end, where a long log is read first
  find "$logs" -type f -exec python3 scripts/test_log.py failures {} +
  printf 'failed: %s\n' "${failures[@]}"
fi
if [ $((passed + failed + skipped)) -eq 0 ]; then
  echo "test.sh: no test fits: ${test_arguments[*]}" >&2
  exit 2
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
