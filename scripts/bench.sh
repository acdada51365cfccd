#!/bin/bash
# Installs missing packages, builds, and runs the throughput benchmark with the arguments given: a
# preview with the model tiny, then the table. With a row of one device and rows of several,
# bench/predicted.py prints the speed-ups of the model:
#   scripts/bench.sh --steps 3
#   scripts/bench.sh --device cuda --devices 4
#   scripts/bench.sh --report report.html
# --report FILE writes the table, next to the published and the modelled one, as a page without links
# to other files. Its timeline has two more steps of each row, since recording takes time.
# --device cuda builds the kernels for the GPUs of this machine. Without nvcc or a GPU the exit code
# is 2. The figures are written to report.json, unless --json FILE is given.
# With --peers, the default on GPUs, the table is followed by ringlet and Sentence Transformers
# alternately (plain, DP on GPUs, DDP, FSDP). PYTHON (python3) names the Python for it; this part is
# skipped if that lacks Sentence Transformers. Its JSON is report.peers.json, next to the table's.
# In both, ringlet has the same --transport, --algorithm and --step-graphs. With --no-peers there is
# only the table.
# With --processes both tables have one process for each of --devices, as `ringlet run` starts them,
# on GPUs over NCCL. Only dp has all devices in one process. Without it, ranks on GPUs are threads
# of one process.
# BUILD=DIR uses the build folder DIR as it is configured and looks for no packages. All other
# options are those of build/bench/throughput, which --help prints.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
! help_wanted "$@" || exit 0
caller=$PWD
cd "$root"

fail() {
  echo "$1" >&2
  exit 2
}

build=${BUILD:-build}
peers= processes=no page= arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --peers) peers=yes ;;
    --no-peers) peers=no ;;
    --processes) processes=yes ;;
    --report=*) page=${1#*=} ;;
    --report)
      [ $# -gt 1 ] || fail "--report: expected the name of a file"
      page=$2
      shift
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

# value_of OPTION DEFAULT: the value in the arguments, else DEFAULT.
value_of() {
  local value=$2 i
  for ((i = 0; i < ${#arguments[@]}; ++i)); do
    case ${arguments[i]} in
      "$1") value=${arguments[i + 1]:-} ;;
      "$1="*) value=${arguments[i]#*=} ;;
    esac
  done
  echo "$value"
}

# without OPTION...: throughput's arguments in `kept`, but for these options and their values.
without() {
  kept=()
  local argument dropped=no
  for argument in "${throughput[@]}"; do
    [[ $argument != --* && $dropped = yes ]] && continue
    dropped=no
    [[ " $* " != *" ${argument%%=*} "* ]] || dropped=yes
    [ $dropped = yes ] || kept+=("$argument")
  done
}

skip_peers() {
  echo "Sentence Transformers is skipped: $1" >&2
  exit
}

compare_peers() {
  local python=${PYTHON:-python3} missing model options=() json
  missing=$("$python" -c 'import importlib.util as known
names = "torch", "sentence_transformers", "datasets", "accelerate"
print(*[name for name in names if not known.find_spec(name)])' 2>/dev/null) ||
    skip_peers "PYTHON=$python does not run"
  [ -z "$missing" ] || skip_peers "$python has no ${missing// / and no }"
  [[ $device =~ ^(cpu|cuda)$ ]] ||
    skip_peers "expected --device cpu or cuda; CUDA_VISIBLE_DEVICES says on which GPUs"
  model=$(value_of --model mpnet-base)
  [[ $model =~ ^(mpnet-base|bert-base|minilm-l6|tiny)$ ]] ||
    skip_peers "its weights are random; expected --model mpnet-base, bert-base, minilm-l6 or tiny"
  [ $processes = no ] || options+=(--launcher "$build/train/cli/ringlet")
  json=$(value_of --json '')
  [ -z "$json" ] || options+=(--json "${json%.json}.peers.json")
  "$python" bench/peers/compare.py strategies --throughput "$build/bench/throughput" --devices "$devices" \
    --model "$model" --rounds 2 "${arguments[@]}" "${options[@]}"
}

[[ -z $page || $page = /* ]] || page=$caller/$page
[ -z "$page" ] || [ -w "$(dirname "$page")" ] || fail "--report $page: its folder cannot be written to"
device=$(value_of --device cpu)
build_options=(-Dbench=enabled)
defaults=(--threads-per-device 1) # one-core devices, for any number of cores
devices=$(($(nproc) < 2 ? 1 : 2))
if [[ $device == cuda* ]]; then
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
    fail "--device $device: there is no nvcc in the PATH or /usr/local/cuda/bin to build kernels with"
  architectures=$(gpu_architectures) || true
  [ -n "$architectures" ] || fail "--device $device: nvidia-smi tells of no GPU here"
  [ -n "${BUILD:-}" ] || echo "kernels are built for the GPUs here: -Dgpu_arch=$architectures" >&2
  build_options+=(-Dcuda=enabled "-Dgpu_arch=$architectures")
  # Steps take milliseconds; the warm-up captures most shapes of a batch before the timed steps.
  defaults=(--warmup 100 --steps 200)
  [ -n "$(value_of --json '')" ] || arguments+=(--json report.json)
  [ $processes = no ] || [ -n "$(value_of --devices '')" ] || fail "--processes: expected --devices N, one for each GPU"
  devices=1
  peers=${peers:-yes}
fi
devices=$(value_of --devices "$devices")
if [ -z "${BUILD:-}" ]; then
  require_packages "${build_packages[@]}"
  configure build "${build_options[@]}" >&2
fi
programs=(bench/throughput)
[ $processes = no ] || programs+=(train/cli/ringlet)
ninja -C "$build" "${programs[@]}" >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
throughput=("${arguments[@]}")
report=$(value_of --json '')
if [ -z "$report" ]; then
  report=$scratch/rows.json
  throughput+=(--json "$report")
fi
for ((i = 0; i < ${#defaults[@]}; i += 2)); do
  [ -n "$(value_of "${defaults[i]}" '')" ] || throughput+=("${defaults[@]:i:2}")
done

# Only one process prints; the launcher puts its rank in front of each line.
measure() {
  if [ $processes = no ]; then
    "$build/bench/throughput" "$@"
  else
    "$build/train/cli/ringlet" run --nproc-per-node "$devices" "$build/bench/throughput" "$@" | sed -u 's/^\[0] //'
  fi
}
if [ "$(value_of --model mpnet-base)" != tiny ]; then
  echo "A preview with the model tiny:"
  without --model --json --timeline --rounds --steps --idle-steps --profile --trace
  measure "${kept[@]}" --model tiny --rounds 1 --steps 3 --idle-steps 0
  echo
fi
measure "${throughput[@]}"
! grep -qs '"link"' "$report" || { echo; python3 bench/predicted.py "$report"; }
if [ -n "$page" ]; then
  without --json --timeline --rounds --steps --profile --trace
  measure "${kept[@]}" --rounds 1 --steps 2 --timeline "$scratch/timeline.json" >/dev/null
  python3 bench/report_page.py "$report" --timeline "$scratch/timeline.svg" --output "$page"
fi
[ "${peers:-no}" = no ] || compare_peers
