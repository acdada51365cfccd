#!/bin/bash
# Builds, checks and measures ringlet on a machine with a GPU, possibly without network and
# packages:
#   [HEADERS=DIR] [OUT=DIR] [OLD=DIR] [COMMIT=HASH] [LIMIT=SECONDS] [ONLY=REGEX] [PYTHON=PROGRAM]
#     scripts/gpu_check.sh [SLICE...]
# Each slice can run alone after `build`; a call takes at most LIMIT seconds (540; 0: no limit).
# Without arguments all slices run, without limit by default, in this order:
#   build      the release build, kernels for this machine's GPU; the output of `ringlet info`
#   kernels    the tests of tensors and kernels: on the CPU, then with --device cuda
#   models     the tests of gradients, layers and models, likewise
#   train      the tests of training, MNIST and the course; train, encode and evaluate on the GPU; SNLI
#              on the CPU and on the GPU, if RINGLET_DATA has it
#   programs   the tests of the programs, which compute on the GPU; ranks as processes, over NCCL
#   comm       collectives of tensors on the GPU and the strategies over them, ranks as threads;
#              collectives (by steps and as one launch, next to copies) and strategies of two,
#              four and eight ranks, timed
#   memcheck racecheck initcheck synccheck    the kernels' tests under compute-sanitizer
#   bench      every kernel and product alone, a step at three lengths, and the profile of a step
#   versions   a step at three lengths of an older build, the folder OLD, and of this one, alternately
#   tune       cuBLASLt's algorithms, timed for cuda/product_table.inc
#   table      scripts/bench.sh as users run it: one GPU; two ranks, two processes that share it
#   attention  attention alone, ringlet's and each of PyTorch's backends, with and without a bias
#   peers      a step of ringlet, of Sentence Transformers and of PyTorch, alternately
#   peers_384  the same of bert-base at 384 tokens, Sentence Transformers with FlashAttention-2 and
#              compiled, too
# HEADERS is the folder that scripts/gpu_pack.sh packed. ONLY selects checks by name, for those that
# a call had no time for; the report lists them as skipped. PYTHON (default: python3) has torch,
# transformers and sentence-transformers. DEVICE=cpu MODEL=tiny STEPS=1 tests the scripts themselves
# without a GPU; DRY_RUN=1 prints the commands.
# Every check is a separate process with a time limit: one that hangs or loses the device does not
# affect the others. Output and figures of checks are collected in build-gpu-results. After each
# check, gpu_check.json and gpu_check.md are written under OUT (default: the same folder). The first
# has the commit, the GPU and the skipped checks with reasons, the second the goals and tables.
# Exits with 1 if a check failed, or skipped the GPU of a machine that has one; else with 3 if there
# was no time for a check.
set -uo pipefail
. "$(dirname "$0")/setup.sh"
help_wanted "$@" && exit
cd "$root"
build=$root/build-gpu
results=$root/build-gpu-results
out=${OUT:-$results}
device=${DEVICE:-cuda}
model=${MODEL:-mpnet-base}
python=${PYTHON:-python3}
total=${LIMIT:-540}
[ $# -gt 0 ] || total=${LIMIT:-0}
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
[ -z "${DRY_RUN:-}" ] || results=$logs out=$logs
mkdir -p "$out" "$results"

# Uses only the packages that were packed.
use_headers() {
  local folder
  folder=$(cd "$1" && pwd) || return 1
  export PKG_CONFIG_LIBDIR=$folder/pkgconfig
  # For nccl.h, which no package names; the toolkit's folder comes first.
  export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$folder/include
  # Installed programs and libraries come before the packed ones.
  export PATH=$PATH:$folder/bin LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder/lib
  [ -n "${RINGLET_DATA:-}" ] || [ ! -d "$folder/data" ] || export RINGLET_DATA=$folder/data
}

# cuBLASLt, CUPTI and NCCL may be installed only as Python packages.
find_libraries() {
  local folders
  folders=$(python3 - <<'PY'
import glob, os, site, sys
roots = sys.path + site.getsitepackages() + [site.getusersitepackages()]
roots += ["/usr/lib/python3*/*-packages", "/usr/local/lib/python3*/*-packages", "/opt/*/lib/python3*/*-packages"]
found = [os.path.dirname(path) for root in roots if root for name in ("cublasLt", "cupti", "nccl")
         for path in glob.glob(f"{root}/nvidia/*/lib/lib{name}.so.*")]
print(":".join(dict.fromkeys(found)))
PY
  )
  [ -z "$folders" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
}

has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# The seconds that a command may take: at most `limit`, and not beyond the call's end; 0 there.
limit=150
allowed() {
  local left=$((total - SECONDS))
  if [ "$total" -eq 0 ] || [ "$left" -gt "$limit" ]; then left=$limit; fi
  echo $((left < 5 ? 0 : left))
}
limited() {
  local seconds
  seconds=$(allowed)
  [ "$seconds" -gt 0 ] || return 124
  timeout -k 5 "$seconds" "$@"
}

# check NAME COMMAND...: one check: a program, or a function that runs programs with `limited`. Exit
# code 77 is skipped, with the last line as the reason; for a check on a GPU that exists it is a
# failure. Checks that fail for lack of a GPU, or for which this call has no time, are skipped, too.
check() {
  local name=$1 begin=$SECONDS code log run=()
  shift
  [[ $name =~ ${ONLY:-} ]] || return 0
  [ -z "${DRY_RUN:-}" ] || { echo "$slice: $name: $*"; return; }
  log=$(mktemp -p "$logs") || return 1
  declare -F "$1" >/dev/null || run=(limited)
  "${run[@]}" "$@" >"$log" 2>&1
  code=$?
  if [ $code -eq 77 ] && [[ " $* " == *" --device cuda"* ]] && has_gpu; then code=78; fi
  if grep -q 'test cases: *0 |' "$log"; then code=79; fi
  if [ $code -ne 0 ] && ! has_gpu && grep -q 'no CUDA device' "$log"; then
    echo "no CUDA device" >>"$log"
    code=77
  fi
  if [ $code -eq 124 ] || [ $code -eq 137 ]; then [ "$(allowed)" -gt 0 ] || code=75; fi
  case $code in
    0 | 77) ;;
    75) touch "$logs/late" ;;
    *) touch "$logs/failed" ;;
  esac
  {
    flock 9  # checks may run concurrently
    echo "== $name"
    tail -n 25 "$log"
    python3 scripts/gpu_report.py add "$results" "$slice" "$name" "$code" $((SECONDS - begin)) "$log"
    python3 scripts/gpu_report.py write "$results" "$out"
  } 9>"$logs/lock"
  [ $code -eq 0 ] || [ $code -eq 77 ]
}

# Runs the check concurrently with others, at most `at_once`; `wait` for all.
at_once=$(($(nproc) < 12 ? $(nproc) : 12))
check_beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
  check "$@" &
}

skip() { check "$1" sh -c 'echo "$1"; exit 77' sh "$2"; }

# Hopper's architecture if there is no GPU: the build is then tested as far as it goes.
architectures() {
  local found
  found=$(gpu_architectures)
  echo "${found:-90a}"
}

slice_build() {
  check configure configure "$build" --buildtype=release -Dcuda=enabled "-Dgpu_arch=$(architectures)" \
    -Dtests=enabled -Dbench=auto -Dgloo=disabled &&
    limit=540 check build ninja -C "$build" &&
    check info "$build/train/cli/ringlet" info
}

# The test files of a folder, without those in which no device takes part.
test_files() {
  grep -l TEST_CASE "tests/$1"/*.cpp | xargs grep -L 'TEST_SUITE_BEGIN("host")' | xargs -n 1 basename
}

# on_device FOLDER PROGRAM: runs each test file separately; two files have programs of their own.
on_device() {
  local file program
  for file in $(test_files "$1"); do
    case $file in
      mnist.cpp) program=train/mnist_tests ;;
      sentence_pipeline.cpp) program=train/pipeline_tests ;;
      *) program=$2 ;;
    esac
    check_beside "$1/$file, $device" "$build/tests/$program" --device "$device" "-sf=*$1/$file"
  done
  wait
}

on_both() {
  local name
  for name; do
    check_beside "$name, cpu" "$build/tests/$name/${name}_tests"
    on_device "$name" "$name/${name}_tests"
  done
}
# Tests of kernels alone, which need a device.
device_tests() { (cd tests/cuda && ls -- *_device.cpp); }

slice_kernels() {
  local file
  check "cuda, host side" "$build/tests/cuda/cuda_tests"
  for file in $(device_tests); do
    check_beside "cuda/$file, $device" "$build/tests/cuda/cuda_tests" --device "$device" "-sf=*cuda/$file"
  done
  check_beside "cuda/check.cpp, $device" "$build/tests/cuda/cuda_tests" --device "$device" "-sf=*cuda/check.cpp"
  on_both core
}
slice_models() { on_both autograd nn models; }

# The main task, from random weights to embeddings and scores; only train takes `train_options`.
train_options=()
short_run() {
  local ringlet=(limited "$build/train/ringlet") work=$logs/run
  "${ringlet[@]}" train --model tiny --max-steps 30 --output "$work" --device "$device" "${train_options[@]}" "$@" &&
    printf 'A dog runs.\nTwo dogs are running.\n' |
    "${ringlet[@]}" encode - --model "$work/model" --output "$logs/e.npy" --device "$device" "$@" &&
    "${ringlet[@]}" make-data "$logs/data" &&
    "${ringlet[@]}" evaluate --model "$work/model" --data "$logs/data/sts-dev.csv" --device "$device" "$@"
  local code=$?
  rm -rf "$work" "$logs/data"
  return $code
}

# snli_run DEVICE: trains on SNLI from random weights and compares the accuracy. A GPU's may be
# lower than the CPU's by 0.03 at most, as rounding differs.
snli_run() {
  local snli=$RINGLET_DATA/snli/snli_dev.jsonl work=$logs/snli accuracy
  rm -rf "$work"
  limited "$build/train/ringlet" train --model tiny --data "$snli" --eval "$snli" --batch 32 \
    --max-steps "${STEPS:-600}" --output "$work" --device "$1" || return
  accuracy=$(sed -n 's/.*"snli_dev_accuracy":\([0-9.]*\).*/\1/p' "$work/metrics.jsonl" | tail -n 1)
  [ "$1" != cpu ] || echo "$accuracy" >"$logs/snli-cpu"
  awk -v here="$accuracy" -v cpu="$(cat "$logs/snli-cpu" 2>/dev/null)" \
    'BEGIN { print "accuracy", here, "on the CPU", cpu; exit here < cpu - 0.03 }'
}
snli_runs() {
  local on
  for on in cpu "$device"; do
    if [ -e "${RINGLET_DATA:-}/snli/snli_dev.jsonl" ]; then
      check "SNLI, $on" snli_run "$on"
    else
      skip "SNLI, $on" "there is no snli/snli_dev.jsonl under RINGLET_DATA"
    fi
  done
}

slice_train() {
  local room
  for room in train train/checkpoint train/data train/optimizer train/report train/step; do
    limit=280 on_device "$room" train/train_tests
  done
  on_device train/evaluators train/evaluators
  on_device train/evaluators/search train/evaluators
  check "course, $device" "$build/tests/tutorial" --device "$device"
  snli_runs
  check "a short run, $device" short_run
  check "a short run in bf16, $device" short_run --dtype bf16
}

# Ranks that share a GPU take turns: these figures show the cost of strategies and collectives
# there, not the speed of as many GPUs.
shared_gpu_figures() {
  local ranks steps=${STEPS:-40}
  for ranks in 2 4; do
    measure "strategies_$ranks" throughput --devices "$ranks" --model "${MODEL:-minilm-l6}" \
      --strategy none,unconnected,dp,ddp,zero1,fsdp,pipe,tensor --dtype bf16 --warmup $((steps / 2)) --steps "$steps"
  done
  for ranks in 2 4 8; do
    measure "collectives_$ranks" collectives --ranks "$ranks" --op all_reduce -b 1M -e "${LARGEST:-256M}" -f 4
  done
}

# Only in nccl.cpp, ranks that are processes share the GPU, over NCCL. The kernels of one process
# wait for those of another, and the GPU runs processes alternately: a group of NCCL takes
# milliseconds.
slice_programs() { limit=280 on_device cli cli/cli_tests; }

# Ranks that are threads share the GPU.
slice_comm() {
  local strategy mesh train_options
  on_device comm comm/comm_tests
  limit=280 on_device train/parallel train/parallel_tests
  limit=280 on_device train/parallel/model train/parallel_tests
  for strategy in ddp fsdp; do
    train_options=(--strategy "$strategy" --devices 2)
    check "a short run under $strategy, $device" short_run
  done
  for mesh in pipe=2 tensor=2 data=2,pipe=2,tensor=2; do
    train_options=(--mesh "$mesh" --gradient-accumulation-steps 2)
    check "a short run under $mesh, $device" short_run
  done
  shared_gpu_figures
}

# Whether compute-sanitizer works on this machine, tested with a program of one store.
probe_sanitizer() {
  local first
  first=$(architectures)
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
  nvcc "-arch=sm_${first%%,*}" -o "$logs/probe" "$logs/probe.cu" >"$logs/probe.log" 2>&1 &&
    timeout -k 5 60 compute-sanitizer --tool "$1" --error-exitcode 9 "$logs/probe" \
      >"$logs/probe.log" 2>&1
}

# The test files with the name of a kernel file, and those of the objects that all kernels use.
# Files such as attention_backward, cross_entropy and sort are tested with others.
kernel_tests() {
  local file
  for file in $(test_files core); do
    [ -e "cuda/${file%.cpp}.cu" ] && echo "$file"
  done
  echo dropout.cpp graph.cpp storage.cpp tensor.cpp
}

# The kernel files with shared memory; racecheck finds races only there.
sharing() { python3 scripts/kernel_resources.py shared "$build"/cuda/*.ptxas; }
race_tests() {
  local sharing file
  ls "$build"/cuda/*.ptxas >/dev/null 2>&1 || return
  sharing=$(sharing) || return
  for file in $(kernel_tests); do
    ! grep -qx "${file%.cpp}" <<<"$sharing" || echo "$file"
  done
}

# sanitize TOOL FILE...: runs test files; the longest take minutes.
sanitize() {
  local tool=$1 file
  shift
  PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer
  command -v compute-sanitizer >/dev/null || { skip "$tool" "there is no compute-sanitizer"; return; }
  probe_sanitizer "$tool" ||
    { skip "$tool" "not supported here: $(tail -n 3 "$logs/probe.log" | tr '\n' ' ')"; return; }
  export RINGLET_CUDA_EXACT=1  # every block separate, so that its ends are known
  local program=(compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20)
  # Tests provoke errors of the API; the library checks each.
  [ "$tool" != memcheck ] || program+=(--report-api-errors no)
  for file; do
    local under=()
    [ "$file" = graph.cpp ] && under=(env -u RINGLET_CUDA_EXACT)  # graphs need blocks that outlive their capture
    if [ "$tool" = initcheck ] && [[ $file =~ ^(matmul|storage|graph).cpp$ ]]; then
      skip "$tool, $file" "initcheck does not see what cuBLASLt's kernels and replayed graphs write; the tests check each value"
      continue
    fi
    # The excluded case copies a result that its kernel has refused to write.
    limit=${EACH:-300} check_beside "$tool, $file" "${under[@]}" "${program[@]}" \
      "$build/tests/core/core_tests" --device "$device" "-sf=*core/$file" "-tce=sentences that do not tile*"
  done
  for file in $(device_tests); do
    if [ "$tool" = racecheck ] && ! sharing | grep -q "^${file%%_*}"; then
      skip "$tool, $file" "its kernels have no shared memory, so racecheck would see nothing; the emulated GPU looks for races"
      continue
    fi
    limit=${EACH:-300} check_beside "$tool, $file" "${program[@]}" \
      "$build/tests/cuda/cuda_tests" --device "$device" "-sf=*cuda/$file"
  done
  # Collectives of ranks that are threads: the memory that they share between streams and release.
  if [ "$tool" = memcheck ] || [ "$tool" = initcheck ]; then
    limit=${EACH:-300} check_beside "$tool, comm/device.cpp" "${program[@]}" \
      "$build/tests/comm/comm_tests" --device "$device" "-sf=*comm/device.cpp"
  fi
  wait
  unset RINGLET_CUDA_EXACT
}
slice_memcheck() { sanitize memcheck $(kernel_tests); }
race_check() {
  local files
  files=$(race_tests) || { skip "$1" "there are no kernels' logs of a build: run the slice build first"; return; }
  sanitize "$1" $files
}
slice_racecheck() { race_check racecheck; }
slice_initcheck() { sanitize initcheck $(kernel_tests); }
slice_synccheck() { race_check synccheck; }

# measure NAME PROGRAM ARGS...: runs a bench program and keeps its JSON as the figures NAME.
measure() {
  local name=$1 program=$build/bench/$2
  shift 2
  limit=280 check "$name" "$program" --device "$device" "$@" --json "$results/$name.figures"
}

# products NAME ARGS...: measures products alone and keeps the printed table.
products() {
  local name=$1
  shift
  check "$name" "$build/bench/kernels" --products --device "$device" --hidden "${HIDDEN:-768}" --tokens 1600 \
    --tokens "${TOKENS:-12288}" "$@"
}

# lengths FILE N: writes a histogram of pairs in which both sentences have N tokens.
lengths() { printf '{"lengths": [[%d, %d, 1]]}\n' "$2" "$2" >"$1"; }

# Sets `long`: the arguments of a step of sentences of 384 tokens.
long_step() {
  lengths "$logs/384.json" 384
  long=(--strategy none --model "$model" --warmup 10 --dtype bf16 --rounds 1 --batch "${LONG:-128}" --histogram "$logs/384.json")
}

slice_bench() {
  # After so many warm-up steps, few of the timed steps are the first of their shape.
  local steps=${STEPS:-300} step long
  step=(--strategy none --model "$model" --warmup $((steps / 2)))
  lengths "$logs/25.json" 25
  long_step
  check "bench, $device" "$build/tests/bench/bench_tests" --device "$device"
  products products_bf16 --dtype bf16
  products products_f32 --dtype f32
  products products_tf32 --dtype f32 --matmul-precision high
  measure kernels kernels --model "$model" --dtype bf16 --dtype f32
  # Larger than the cache: these kernels move far more than it holds.
  measure bandwidth kernels --model "$model" --dtype bf16 --batch "${LARGE:-4096}" \
    '--filter=/(adamw|layer_norm|gelu|residual_dropout_layer_norm|copy)'
  measure step_bf16 throughput "${step[@]}" --steps "$steps" --dtype bf16
  # The scaling model needs the phases of a step, which a replayed step does not have.
  measure step_by_op throughput "${step[@]}" --steps $((steps < 40 ? steps : 40)) --dtype bf16 --rounds 1 --step-graphs off
  check scaling_from_step python3 bench/scaling.py --machine "H200, bf16, mpnet-base" --throughput "$results/step_by_op.figures" \
    --devices 1,2,4,8
  measure step_f32 throughput "${step[@]}" --steps "$steps" --dtype f32
  measure step_50_tokens throughput "${step[@]}" --steps "$steps" --dtype bf16 --histogram "$logs/25.json"
  measure step_384_tokens throughput "${long[@]}" --steps $((steps < 20 ? steps : 20))
  measure profile throughput "${step[@]}" --steps $((steps < 40 ? steps : 40)) --dtype bf16 --rounds 1 --profile
  measure profile_384_tokens throughput "${long[@]}" --steps 3 --profile
}

slice_versions() {
  local steps=${STEPS:-100} long round version build=$build new=$build
  [ -x "${OLD:-}/bench/throughput" ] || { skip versions "OLD names no folder of an older build"; return; }
  local step=(--strategy none --model "$model" --warmup $((steps / 2)) --steps "$steps" --dtype bf16 --rounds 1)
  lengths "$logs/25.json" 25
  long_step
  for round in 1 2; do
    for version in old new; do
      build=$OLD
      [ $version = old ] || build=$new
      measure "versions_snli_${version}_$round" throughput "${step[@]}"
      measure "versions_50_tokens_${version}_$round" throughput "${step[@]}" --histogram "$logs/25.json"
      measure "versions_384_tokens_${version}_$round" throughput "${long[@]}" --steps $((steps < 10 ? steps : 10))
    done
  done
}

slice_tune() {
  limit=125 check tune "$build/bench/tune_products" --seconds 95 --out "$out/product_table.inc"
}

# table NAME ARGS...: runs scripts/bench.sh over this build and keeps its JSON as the figures NAME.
table() {
  local name=$1
  shift
  limit=270 check "$name" env "BUILD=$build" scripts/bench.sh --device "$device" "$@" --json "$results/$name.figures"
}

# To NCCL, each process that shares the GPU is a separate host, joined by the loopback interface.
# The settings are those of tests/comm/rank_program.cpp.
as_hosts_of_their_own() {
  limited env NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 \
    NCCL_CUMEM_ENABLE=0 NCCL_MAX_NCHANNELS=2 NCCL_ALGO=Ring NCCL_PROTO=Simple CUDA_MODULE_LOADING=EAGER \
    CUDA_DEVICE_MAX_CONNECTIONS=32 "$build/train/ringlet" run --nproc-per-node 2 \
    sh -c 'NCCL_HOSTID=rank-$RANK exec "$@"' sh "$@"
}

# All but the figures of one GPU are labelled: ranks that share a GPU do not have the speed of
# several.
slice_table() {
  local steps=${STEPS:-40} shared=${MODEL:-minilm-l6} few
  few=$((steps < 10 ? steps : 10))
  PYTHON=$python table table_1 --devices 1 --model "$model" --warmup $((steps / 2)) --steps "$steps"
  table table_2 --devices 2 --no-peers --model "$shared" --warmup $((steps / 2)) --steps "$steps" --rounds 1
  limit=180 check table_2_processes as_hosts_of_their_own "$build/bench/throughput" --device "$device" --devices 2 \
    --model "$shared" --strategy none,ddp,fsdp --warmup $((few / 2)) --steps "$few" --rounds 1 --idle-steps 0 \
    --json "$results/table_2_processes.figures"
}

has_python() {
  "$python" -c "import $1" >/dev/null 2>&1 || { skip "$2" "$python has no $1"; return 1; }
}

slice_attention() {
  local length dropout
  for length in ${LENGTHS:-25 384}; do
    for dropout in 0 0.1; do
      measure "attention_${length}_dropout_$dropout" kernels --model mpnet-base --model bert-base --dtype bf16 \
        --length "$length" --dropout "$dropout" --filter=/attention
    done
  done
  has_python torch "attention of PyTorch" || return
  check "attention of PyTorch" "$python" bench/peers/attention.py --device "$device" --lengths ${LENGTHS:-25 384} \
    --json "$results/attention_pytorch.figures"
}

slice_peers() {
  local steps=${STEPS:-40} peers=() name
  has_python torch peers || return
  # Compiling takes longest, so it comes last.
  peers=(--python "PyTorch sdpa bf16:sdpa+bf16=$python")
  has_python sentence_transformers "Sentence Transformers" &&
    for name in f32 bf16 bf16+compile; do
      peers+=(--python "Sentence Transformers $name:sentence_transformers+$name=$python")
    done
  ! [[ peers =~ ${ONLY:-} ]] || rm -f "$results/peers.figures"  # each round rewrites it
  limit=560 check peers python3 bench/peers/compare.py step --device "$device" --model "$model" --dtype bf16 \
    --warmup $((steps / 4 + 1)) --steps "$steps" --rounds 2 --deadline 240 "${peers[@]}" --json "$results/peers.figures" \
    --throughput "$build/bench/throughput"
}

# FlashAttention-2 takes no relative bias, which MPNet has.
slice_peers_384() {
  local steps=${STEPS:-10} peers=() extra
  has_python sentence_transformers "peers at 384 tokens" || return
  lengths "$logs/384.json" 384
  for extra in bf16 bf16+flash bf16+compile bf16+flash+compile; do
    [[ $extra != *flash* ]] || has_python flash_attn "Sentence Transformers $extra" || continue
    peers+=(--python "Sentence Transformers $extra:sentence_transformers+$extra=$python")
  done
  limit=540 check peers_384 python3 bench/peers/compare.py step --device "$device" --model "${SHORT:-bert-base}" --dtype bf16 \
    --batch "${LONG:-128}" --histogram "$logs/384.json" --warmup 4 --steps "$steps" --rounds 1 --deadline 130 "${peers[@]}" \
    --json "$results/peers_384.figures" --throughput "$build/bench/throughput"
}

slices=(build kernels models train programs comm memcheck racecheck initcheck synccheck bench versions tune table attention peers peers_384)
[ $# -gt 0 ] || set -- "${slices[@]}"
for slice; do
  if ! declare -F "slice_$slice" >/dev/null; then
    echo "unknown slice $slice; there are ${slices[*]}" >&2
    exit 2
  fi
done
[ -z "${HEADERS:-}" ] || use_headers "$HEADERS" || exit 2
find_libraries
COMMIT=${COMMIT:-$(cat "${HEADERS:-.}/commit" 2>/dev/null || git rev-parse HEAD 2>/dev/null || echo unknown)}
GPU=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null)
export COMMIT GPU=${GPU:-no GPU}
for slice; do
  [ -n "${ONLY:-}" ] || rm -f "$results/$slice.checks"
  "slice_$slice"
done
[ ! -e "$logs/failed" ] || exit 1
[ ! -e "$logs/late" ] || exit 3
