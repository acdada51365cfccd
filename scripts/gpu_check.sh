#!/bin/bash
# Builds and checks ringlet on a machine with a GPU, which may have no network and no packages:
#   scripts/gpu_check.sh pack DIR       where the packages are: copies what a build needs to DIR
#   HEADERS=DIR OUT=DIR scripts/gpu_check.sh [SLICE...]
# Slices, each under ten minutes on 16 processors; without one all of them, in this order:
#   build      the release build, kernels for this machine's GPU
#   kernels    the tests of tensors and kernels: on the CPU, then with --device cuda
#   models     the tests of gradients, layers and models, likewise
#   memcheck racecheck initcheck        the kernels' tests under compute-sanitizer
#   bench      time per kernel, throughput of a step
# Writes gpu_check_SLICE.json, with the commit, the device and what was skipped and why, and
# gpu_check.md under OUT (default: build-gpu). Ends with 1 where a check failed.
set -uo pipefail
. "$(dirname "$0")/setup.sh"
cd "$root"
build=$root/build-gpu
out=${OUT:-$build}
mkdir -p "$out"
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

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

# Nothing is looked for beside what was packed.
use_headers() {
  local folder
  folder=$(cd "$1" && pwd) || return 1
  export PKG_CONFIG_LIBDIR=$folder/pkgconfig
  command -v pkg-config >/dev/null && return
  export PATH=$PATH:$folder/bin LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder/lib
}

# check NAME COMMAND...: one check; 77 is skipped, with the last line as the reason.
check() {
  local name=$1 begin code
  shift
  echo "== $name"
  begin=$(date +%s.%N)
  "$@" >"$logs/log" 2>&1
  code=$?
  tail -n 25 "$logs/log"
  python3 - "$name" "$code" "$begin" "$logs" <<'PY'
import json, sys, time
name, code, begin, logs = sys.argv[1:]
lines = open(logs + "/log", errors="replace").read().splitlines()
result = {"0": "passed", "77": "skipped"}.get(code, "failed")
entry = {"check": name, "result": result, "code": int(code),
         "seconds": round(time.time() - float(begin), 2)}
if result == "skipped":
    entry["reason"] = lines[-1] if lines else ""
elif result == "failed":
    entry["end"] = lines[-60:]
else:
    entry["last"] = lines[-3:]
with open(logs + "/checks", "a") as file:
    file.write(json.dumps(entry) + "\n")
PY
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
    check build ninja -C "$build" &&
    check info "$build/train/cli/ringlet" info
}

on_both() {
  local name
  for name; do
    check "$name, cpu" "$build/tests/$name/${name}_tests"
    check "$name, cuda" "$build/tests/$name/${name}_tests" --device cuda
  done
}
slice_kernels() {
  check "cuda, host side" "$build/tests/cuda/cuda_tests"
  on_both core
}
slice_models() { on_both autograd nn models; }

sanitize() {
  local tool=$1
  command -v compute-sanitizer >/dev/null || { skip "$tool" "there is no compute-sanitizer"; return; }
  check "$tool" timeout 540 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 \
    "$build/tests/core/core_tests" --device cuda
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
      check "$program" timeout 540 "$build/bench/$program" --device cuda
    fi
  done
}

# The slice's checks so far as JSON, and all slices in OUT as one table.
report() {
  touch "$logs/checks"
  python3 - "$1" "$logs/checks" "$out" <<'PY'
import glob, json, subprocess, sys
name, checks, out = sys.argv[1:]
def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""
commit = said("git", "rev-parse", "HEAD") or "unknown"
device = said("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
              "--format=csv,noheader") or "no GPU"
entries = [json.loads(line) for line in open(checks)]
with open(f"{out}/gpu_check_{name}.json", "w") as file:
    json.dump({"slice": name, "commit": commit, "device": device, "checks": entries}, file, indent=1)
with open(f"{out}/gpu_check.md", "w") as file:
    file.write(f"Commit {commit}\n\nDevice: {device}\n\n| slice | check | result | seconds |\n|---|---|---|---|\n")
    for path in sorted(glob.glob(f"{out}/gpu_check_*.json")):
        part = json.load(open(path))
        for c in part["checks"]:
            why = ": " + c["reason"] if c.get("reason") else ""
            file.write(f"| {part['slice']} | {c['check']} | {c['result']}{why} | {c['seconds']} |\n")
sys.exit(any(c["result"] == "failed" for c in entries))
PY
}

if [ "${1:-}" = pack ]; then
  pack "${2:?pack needs a folder}"
  exit
fi
[ $# -gt 0 ] || set -- build kernels models memcheck racecheck initcheck bench
failed=0
for slice; do
  if ! declare -F "slice_$slice" >/dev/null; then
    echo "unknown slice $slice; there are build, kernels, models, memcheck, racecheck, initcheck, bench" >&2
    exit 2
  fi
  : >"$logs/checks"
  "slice_$slice"
  report "$slice" || failed=1
done
exit $failed
