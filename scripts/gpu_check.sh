#!/bin/bash
# Builds and checks ringlet on a machine with a GPU, which may have no network and no packages:
#   [HEADERS=DIR] [OUT=DIR] [COMMIT=HASH] [ONLY=REGEX] scripts/gpu_check.sh [SLICE...]
# Slices, each of at most ten minutes; without one all of them, in this order:
#   build      the release build, kernels for this machine's GPU
#   kernels    the tests of tensors and kernels: on the CPU, then with --device cuda
#   models     the tests of gradients, layers and models, likewise
#   memcheck racecheck initcheck        the kernels' tests under compute-sanitizer
#   bench      time per kernel, throughput of a step
# HEADERS is what scripts/gpu_pack.sh packed. ONLY picks checks by name, for what a slice had no time
# for. Every check is a process of its own with a limit of time: neither one that hangs nor one that
# loses the device takes others with it. After each, gpu_check_SLICE.json, with the commit, the
# device and what was skipped and why, and gpu_check.md are written under OUT (default: build-gpu).
# Ends with 1 where a check failed, or skipped the GPU of a machine that has one.
set -uo pipefail
. "$(dirname "$0")/setup.sh"
cd "$root"
build=$root/build-gpu
out=${OUT:-$build}
slice_seconds=570
mkdir -p "$out"
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

# Nothing is looked for beside what was packed.
use_headers() {
  local folder
  folder=$(cd "$1" && pwd) || return 1
  export PKG_CONFIG_LIBDIR=$folder/pkgconfig
  command -v pkg-config >/dev/null && return
  export PATH=$PATH:$folder/bin LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder/lib
}

# cuBLASLt may be there as a Python package alone.
find_cublas() {
  local folders
  folders=$(python3 - <<'PY'
import glob, os, site, sys
roots = sys.path + site.getsitepackages() + [site.getusersitepackages()]
roots += ["/usr/lib/python3*/*-packages", "/usr/local/lib/python3*/*-packages", "/opt/*/lib/python3*/*-packages"]
found = [os.path.dirname(path) for root in roots if root
         for path in glob.glob(root + "/nvidia/*/lib/libcublasLt.so.*")]
print(":".join(dict.fromkeys(found)))
PY
  )
  [ -z "$folders" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
}

has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# check NAME COMMAND...: one check of at most `limit` seconds; 77 is skipped, with the last line as
# the reason, but of a check on a GPU that is there it is a failure.
limit=150
check() {
  local name=$1 begin code left=$((slice_seconds - SECONDS + slice_begin))
  shift
  [[ $name =~ ${ONLY:-} ]] || return 0
  echo "== $name"
  begin=$SECONDS
  if [ "$left" -lt 5 ]; then
    echo "no time left for it in this slice: run it again with ONLY" >"$logs/log"
    code=124
  elif declare -F "$1" >/dev/null; then
    "$@" >"$logs/log" 2>&1
    code=$?
  else
    timeout -k 5 $((limit < left ? limit : left)) "$@" >"$logs/log" 2>&1
    code=$?
  fi
  tail -n 25 "$logs/log"
  if [ $code -eq 77 ] && [[ " $* " == *" --device cuda "* ]] && has_gpu; then code=78; fi
  if grep -q 'test cases: *0 |' "$logs/log"; then code=79; fi
  [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
  python3 scripts/gpu_report.py "$out" "$slice" "$name" "$code" $((SECONDS - begin)) "$logs/log"
  [ $code -eq 0 ] || [ $code -eq 77 ]
}

skip() { check "$1" sh -c 'echo "$1"; exit 77' sh "$2"; }

# The architecture of the first GPU as nvcc names it: 90a for compute capability 9.0.
architecture() {
  local found
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
  case "$found" in
    '') echo 90a ;;
    90 | 100 | 120) echo "${found}a" ;;
    *) echo "$found" ;;
  esac
}

slice_build() {
  [ -z "${HEADERS:-}" ] || use_headers "$HEADERS" || return 1
  check configure configure "$build" --buildtype=release -Dcuda=enabled "-Dgpu_arch=$(architecture)" \
    -Dtests=enabled -Dbench=auto -Dgloo=disabled &&
    limit=540 check build ninja -C "$build" &&
    check info "$build/train/cli/ringlet" info
}

# Names of the files of tests of a program.
test_files() { grep -l TEST_CASE "tests/$1"/*.cpp | xargs -n 1 basename; }

on_both() {
  local name file
  for name; do
    check "$name, cpu" "$build/tests/$name/${name}_tests"
    for file in $(test_files "$name"); do
      check "$name/$file, cuda" "$build/tests/$name/${name}_tests" --device cuda "-sf=*$name/$file"
    done
  done
}
slice_kernels() {
  check "cuda, host side" "$build/tests/cuda/cuda_tests"
  on_both core
}
slice_models() { on_both autograd nn models; }

# Whether compute-sanitizer works on this machine at all, said with a program of one store.
probe_sanitizer() {
  cat >"$logs/probe.cu" <<'CUDA'
__global__ void store(int* to) { *to = 1; }
int main() {
  int* to = nullptr;
  if (cudaMalloc(&to, sizeof(int)) != cudaSuccess) return 2;
  store<<<1, 1>>>(to);
  const bool good = cudaDeviceSynchronize() == cudaSuccess;
  cudaFree(to);
  return good ? 0 : 3;
}
CUDA
  nvcc "-arch=sm_$(architecture)" -o "$logs/probe" "$logs/probe.cu" >"$logs/probe.log" 2>&1 &&
    timeout -k 5 60 compute-sanitizer --tool "$1" --error-exitcode 9 "$logs/probe" \
      >"$logs/probe.log" 2>&1
}

sanitize() {
  local tool=$1 file
  PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer
  command -v compute-sanitizer >/dev/null || { skip "$tool" "there is no compute-sanitizer"; return; }
  probe_sanitizer "$tool" ||
    { skip "$tool" "not supported here: $(tail -n 3 "$logs/probe.log" | tr '\n' ' ')"; return; }
  export RINGLET_CUDA_EXACT=1  # every block its own, so that its ends are known
  for file in $(test_files core); do
    check "$tool, $file" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 \
      "$build/tests/core/core_tests" --device cuda "-sf=*core/$file"
  done
  unset RINGLET_CUDA_EXACT
}
slice_memcheck() { sanitize memcheck; }
slice_racecheck() { sanitize racecheck; }
slice_initcheck() { sanitize initcheck; }

slice_bench() {
  local program
  for program in kernels throughput; do
    if [ ! -x "$build/bench/$program" ]; then
      skip "$program" "$program was not built: needs Google Benchmark or its other libraries"
    elif ! "$build/bench/$program" --help 2>/dev/null | grep -q -- --device; then
      skip "$program" "$program does not take --device"
    else
      limit=280 check "$program" "$build/bench/$program" --device cuda
    fi
  done
}

[ $# -gt 0 ] || set -- build kernels models memcheck racecheck initcheck bench
find_cublas
COMMIT=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
DEVICE=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null)
export COMMIT DEVICE=${DEVICE:-no GPU}
failed=0
for slice; do
  if ! declare -F "slice_$slice" >/dev/null; then
    echo "unknown slice $slice; there are build, kernels, models, memcheck, racecheck, initcheck, bench" >&2
    exit 2
  fi
  [ -n "${ONLY:-}" ] || rm -f "$out/gpu_check_$slice.json"
  slice_begin=$SECONDS
  "slice_$slice"
done
exit $failed
