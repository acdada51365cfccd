#!/bin/bash
# Installs missing packages, builds, and runs the throughput benchmark with the arguments given. Each
# row runs with the model tiny first, as a check; the table follows. With a row of one device and rows
# of several, bench/predicted.py prints the speed-ups of the model:
#   scripts/bench.sh --steps 3
#   scripts/bench.sh --device cuda --devices 4
#   scripts/bench.sh --report report.html
# Names of files are relative to the caller's folder. stderr tells what is being done. The last line
# names the files that were written.
# Option --report FILE writes what is printed, with bars and a timeline, as a page without links to other files. Its timeline is of another run, of two steps, since recording takes time.
# --device cuda builds the kernels for the GPUs of this machine. Without nvcc or a GPU the exit code
# is 2. The figures are written to report.json, unless --json FILE is given. A fresh clone without a
# GPU is built without kernels for GPUs.
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
printf -v command ' %q' scripts/bench.sh "$@"

fail() {
  echo "$1" >&2
  exit 2
}

say() { echo "bench.sh: $1" >&2; }

build=${BUILD:-$root/build}
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

# check_folder OPTION FILE: whether FILE, if one is given, can be written.
check_folder() {
  [ -z "$2" ] || [ -w "$(dirname "$2")" ] || fail "$1 $2: its folder cannot be written to"
}

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

# Whether the peers can be compared; says why if not.
has_peers() {
  local missing
  if ! missing=$("$python" -c 'import importlib.util as known
names = "torch", "sentence_transformers", "datasets", "accelerate"
print(*[name for name in names if not known.find_spec(name)])' 2>/dev/null); then
    missing="PYTHON=$python does not run"
  elif [ -n "$missing" ]; then
    missing="$python has no ${missing// / and no }"
  elif [[ ! $device =~ ^(cpu|cuda)$ ]]; then
    missing="expected --device cpu or cuda; CUDA_VISIBLE_DEVICES says on which GPUs"
  elif [[ ! $model =~ ^(mpnet-base|bert-base|minilm-l6|tiny)$ ]]; then
    missing="its weights are random; expected --model mpnet-base, bert-base, minilm-l6 or tiny"
  fi
  [ -z "$missing" ] || { say "Sentence Transformers is skipped: $missing"; return 1; }
}

compare_peers() {
  local python=${PYTHON:-python3} model options=() json
  model=$(value_of --model mpnet-base)
  has_peers || return 0
  [ $processes = no ] || options+=(--launcher "$build/train/cli/ringlet")
  json=$(value_of --json '')
  [ -z "$json" ] || options+=(--json "${json%.json}.peers.json")
  say "ringlet and Sentence Transformers in turn"
  "$python" "$root/bench/peers/compare.py" strategies --throughput "$build/bench/throughput" --devices "$devices" \
    --model "$model" --rounds 2 "${arguments[@]}" "${options[@]}"
  [ -z "$json" ] || written+=("${json%.json}.peers.json")
}

# The build takes minutes, so options that only the program knows are looked up in its source.
known=" $(grep -ohE '"--[a-z-]+"' "$root"/bench/options.cpp "$root"/bench/program_options.h | tr -d '"' | paste -sd' ') "
after=
for argument in "${arguments[@]}"; do
  [[ $argument == --* || $after == --* && $after != *=* ]] || fail "unknown argument '$argument'; scripts/bench.sh --help lists what there is"
  [[ $argument != --* || $known == *" ${argument%%=*} "* ]] || fail "unknown option '${argument%%=*}'; expected one of$known"
  after=$argument
done
device=$(value_of --device cpu)
[[ $device =~ ^(cpu|cuda)(:[0-9]+)?$ ]] || fail "--device: expected cpu or cuda, perhaps with an index, found '$device'"
build_options=(-Dbench=enabled)
defaults=(--threads-per-device 1) # one-core devices, for any number of cores
devices=$(($(nproc) < 2 ? 1 : 2))
if [[ $device == cuda* ]]; then
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
    fail "--device $device: there is no nvcc in the PATH or /usr/local/cuda/bin to build kernels with"
  architectures=$(gpu_architectures) || true
  [ -n "$architectures" ] || fail "--device $device: nvidia-smi tells of no GPU here"
  [ -n "${BUILD:-}" ] || say "kernels are built for the GPUs here: -Dgpu_arch=$architectures"
  build_options+=(-Dcuda=enabled "-Dgpu_arch=$architectures")
  # Steps take milliseconds; the warm-up captures most shapes of a batch before the timed steps.
  defaults=(--warmup 100 --steps 200)
  [ -n "$(value_of --json '')" ] || arguments+=(--json report.json)
  [ $processes = no ] || [ -n "$(value_of --devices '')" ] || fail "--processes: expected --devices N, one for each GPU"
  devices=1
  peers=${peers:-yes}
fi
devices=$(value_of --devices "$devices")
[[ $devices =~ ^[1-9][0-9]{0,3}$ ]] && [ "$devices" -le 1024 ] || fail "--devices: expected a whole number from 1 to 1024, found '$devices'"
report=$(value_of --json '') timeline=$(value_of --timeline '')
check_folder --report "$page"
check_folder --json "$report"
check_folder --timeline "$timeline"
written=(${page:+"$page"} ${report:+"$report"})
[ -z "$timeline" ] || written+=("${timeline%.*}.json" "${timeline%.*}.svg")

if [ -z "${BUILD:-}" ]; then
  if [[ $device != cuda* && ! -f $build/build.ninja && -z $(gpu_architectures) ]]; then
    build_options+=(-Dgpu_arch=)
    say "no GPU here, so no CUDA kernels are compiled; these are, by: meson configure build -Dgpu_arch=90a"
  fi
  if [[ ! -f $build/build.ninja && -z ${RINGLET_ISA:-} ]]; then
    build_options+=("-Disa=$(instruction_set)")
    say "CPU kernels are compiled for this processor; for others, too, by: meson configure build -Disa=portable,avx2,avx512"
  fi
  say "looking for packages"
  require_packages "${build_packages[@]}"
  say "configuring $build"
  (cd "$root" && configure build "${build_options[@]}") >&2
fi
programs=(bench/throughput)
[ $processes = no ] || programs+=(train/cli/ringlet)
say "building ${programs[*]}, which takes minutes the first time"
ninja -C "$build" "${programs[@]}" >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
throughput=("${arguments[@]}")
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
  say "a preview, each row with the model tiny: whether everything runs"
  without --model --json --timeline --rounds --steps --idle-steps --profile --trace
  measure "${kept[@]}" --model tiny --rounds 1 --steps 3 --idle-steps 0 >/dev/null
fi
say "the table"
{
  measure "${throughput[@]}"
  ! grep -qs '"link"' "$report" || { echo; python3 "$root/bench/predicted.py" "$report"; }
} | tee "$scratch/printed"
if [ -n "$page" ]; then
  say "the page's timeline, another run of two steps of each row"
  without --json --timeline --rounds --steps --profile --trace
  measure "${kept[@]}" --rounds 1 --steps 2 --timeline "$scratch/timeline.json" >/dev/null
  python3 "$root/bench/report_page.py" "$report" --printed "$scratch/printed" --timeline "$scratch/timeline.svg" \
    --command "${command# }" --output "$page"
fi
[ "${peers:-no}" = no ] || compare_peers
if [ ${#written[@]} -gt 0 ]; then
  list=$(printf ', %s' "${written[@]}")
  printf '\nwritten: %s\n' "${list#, }"
fi
