#!/bin/bash
# Installs missing packages, builds, and runs every check:
#   scripts/test.sh                    all of them
#   scripts/test.sh quick              the release build and its tests only
#   scripts/test.sh emulated [SUITE...] the tests on the emulated GPU only, for instance core (needs nvcc)
#   scripts/test.sh [quick] ARGS...    passes ARGS to every `meson test`, for instance --suite, and after
#                                      quick also names; checks that are no `meson test` do not run then
# Ends with "N passed, N failed, N skipped"; exit code 1 if something failed.
set -uo pipefail
. "$(dirname "$0")/setup.sh"
cd "$root"

help_wanted "$@" && exit
quick=false emulated=false
case ${1:-} in
  quick) quick=true && shift ;;
  emulated) quick=true emulated=true && shift ;;
  "" | -*) ;;
  *)
    echo "test.sh: unknown argument '$1'; expected quick, emulated or an option of meson test" >&2
    exit 2
    ;;
esac
test_arguments=("$@")
if $emulated; then
  test_arguments=(--suite=emulated)
  [ $# -eq 0 ] || test_arguments=("${@/#/--suite=emulated_}")
fi

passed=0 failed=0 skipped=0
failures=()
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

heading() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

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

skip() {
  echo "skipped: $1"
  skipped=$((skipped + 1))
}

# run_tests NAME FOLDER ARGS...: runs `meson test` and counts its test cases.
run_tests() {
  local name=$1 folder=$2 counts p f s
  shift 2
  rm -f "$folder/meson-logs/testlog.json"
  meson test -C "$folder" --print-errorlogs "$@"
  local code=$?
  # No test of this build fits the arguments; another build may have one.
  if [ $code -eq 0 ] && [ ! -e "$folder/meson-logs/testlog.json" ]; then return; fi
  counts=$(python3 scripts/test_log.py count "$folder/meson-logs/testlog.json") || counts="0 1 0"
  read -r p f s <<<"${counts:-0 1 0}"
  if [ $code -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ "$f" -eq 0 ] && return
  failures+=("$name")
  cp "$folder/meson-logs/testlog.json" "$logs/$name.json"
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
  configure "$folder" "${options[@]}" && ninja -C "$folder" "$@" && return
  failed=$((failed + 1))
  failures+=("$name: build")
  return 1
}

release_tests() {
  heading "release build, warnings are errors"
  build release build --buildtype=release -Dwerror=true -Dtests=enabled || return
  run_tests release build "${test_arguments[@]}"
}

format_check() {
  heading "format"
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
  skip "format: needs clang-format 14"
}

# One build with clang is for both the sanitizers and the fuzzers.
sanitizer_tests() {
  heading "address and undefined behaviour sanitizers"
  # All instruction sets have the same sources: one is enough. For CUDA this is the host's side
  # only.
  local options=(-Dwerror=true -Doptimization=1 -Dcpp_args=-g1 -Dbench=disabled -Dcuda=auto -Dgpu_arch=
    -Dtests=enabled -Disa=avx2)
  unset RINGLET_DATA  # the release build reads the real data; here it would take too long
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  if command -v clang++ >/dev/null; then
    # ld.bfd takes almost five times as long to link comm_tests.
    if command -v ld.lld >/dev/null; then options+=(-Dcpp_link_args=-fuse-ld=lld); fi
    CXX=clang++ build sanitizers build-sanitizers "${options[@]}" -Dfuzzers=true || return
    run_tests "sanitizers and fuzzers" build-sanitizers --timeout-multiplier 5 "${test_arguments[@]}"
  else
    build sanitizers build-sanitizers "${options[@]}" -Db_sanitize=address,undefined || return
    run_tests sanitizers build-sanitizers --timeout-multiplier 5 "${test_arguments[@]}"
    skip "fuzzers: need clang"
  fi
}

thread_tests() {
  heading "thread sanitizer on what has threads"
  build threads build-threads -Dwerror=true -Doptimization=1 -Dcpp_args=-g1 -Dbench=disabled \
    -Dcuda=auto -Dgpu_arch= -Dtests=enabled -Disa= -Dgloo=disabled -Db_sanitize=thread -- \
    tests/comm/comm_tests tests/thread_tests || return
  export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0  # a child of fork() has a separate pool
  # It cannot follow the threads that a forked child starts after the first one.
  check "thread sanitizer: core" build-threads/tests/thread_tests --source-file='*core/parallel.cpp' \
    --test-case-exclude='threads that do not start*'
  # Ranks as threads, over the transports that share memory; gloo itself is not instrumented.
  check "thread sanitizer: comm" build-threads/tests/comm/comm_tests \
    --source-file-exclude='*processes*'
  check "thread sanitizer: comm on a delayed device" build-threads/tests/comm/comm_tests --device delayed:1
  check "thread sanitizer: strategies" build-threads/tests/thread_tests \
    --test-case='under ring ten*,a thread and a replica*,*one all-reduce per bucket*,*gathers each unit*,*no_sync*,forwards that threw*,no write overtakes*'
  check "thread sanitizer: loader" build-threads/tests/thread_tests \
    --source-file='*train/loader.cpp,*bounded_queue.cpp'
}

leak_check() {
  heading "leaks in the course"
  command -v valgrind >/dev/null || { skip "leaks: needs valgrind"; return; }
  # valgrind does not support AVX-512. Lessons 4 and 5 would take a quarter of an hour in it; the
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
$quick || want_packages "${check_packages[@]}"

if $emulated; then
  export RINGLET_EMULATED_REPORT=$root/build/emulated_kernels.jsonl
  rm -f "$RINGLET_EMULATED_REPORT"
fi
release_tests
$quick || sanitizer_tests
if ! $quick && [ ${#test_arguments[@]} -eq 0 ]; then
  format_check
  check prose scripts/prose.py
  heading "a short run of the main job"
  check "short run" short_run
  thread_tests
  leak_check
fi

if $emulated && [ -s build/meson-logs/testlog.json ]; then
  heading "cases by suite, and the kernels that they ran"
  python3 scripts/test_log.py table build/meson-logs/testlog.json
  [ ! -s "$RINGLET_EMULATED_REPORT" ] || python3 scripts/emulated_report.py "$RINGLET_EMULATED_REPORT" .
fi

heading "done"
if [ ${#failures[@]} -ne 0 ]; then  # repeated at the end, where a long log is read first
  rm -f "$logs/output"
  find "$logs" -type f -exec python3 scripts/test_log.py failures {} +
  printf 'failed: %s\n' "${failures[@]}"
fi
if [ $((passed + failed + skipped)) -eq 0 ]; then
  echo "test.sh: no test fits: ${test_arguments[*]}" >&2
  exit 2
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
