# Sourced by the scripts beside it: what must be installed, and how a build folder is made.
# Debian 12 is what this is tested on; Ubuntu 24.04 has the same packages but is untested.

# What a script says at its top, where that is asked for: help_wanted "$@" && exit.
help_wanted() {
  case ${1:-} in -h | --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" ;; *) false ;; esac
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(g++ meson ninja-build pkg-config libcli11-dev libfmt-dev
  libgloo-dev libssl-dev libutf8proc-dev nlohmann-json3-dev zlib1g-dev)
bench_packages=(libbenchmark-dev)
test_packages=(doctest-dev cmake "${bench_packages[@]}")
# Checks that are skipped where these are missing and cannot be installed.
check_packages=(clang clang-format libclang-rt-14-dev valgrind)

missing_packages() {
  local package
  for package; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

apt_install() {
  local become=()
  [ "$(id -u)" = 0 ] || become=(sudo -n)
  local install=("${become[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "$@")
  "${install[@]}" || { "${become[@]}" apt-get update -q && "${install[@]}"; }
} >&2

can_install() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

# Installs the packages named, or prints the one command that does and exits with 2.
require_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: going on without looking for packages" >&2
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if can_install && apt_install "${missing[@]}"; then return; fi
  echo "packages are missing; install them with:" >&2
  echo "  sudo apt-get install -y ${missing[*]}" >&2
  exit 2
}

# The same, but goes on without what cannot be had.
want_packages() {
  command -v dpkg-query >/dev/null && can_install || return 0
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}" || true
}

# configure FOLDER [meson options]: makes the build folder or changes its options.
configure() {
  if [ -f "$1/build.ninja" ]; then
    meson setup --reconfigure "$@" >"$1/configure.log" 2>&1 || { cat "$1/configure.log"; return 1; }
  else
    meson setup "$@"
  fi
}

# The architectures of the GPUs that CUDA_VISIBLE_DEVICES leaves, as nvcc names them, the first one's
# first: 90a for compute capability 9.0, several joined by commas. Nothing where there is no GPU.
# Numbers are nvidia-smi's under CUDA_DEVICE_ORDER=PCI_BUS_ID alone: else all GPUs' count, and so
# they do beside an instance of MIG, which has no number here.
gpu_architectures() {
  nvidia-smi --query-gpu=index,uuid,compute_cap --format=csv,noheader 2>/dev/null |
    awk -F ', *' -v visible="${CUDA_VISIBLE_DEVICES-all}" -v order="${CUDA_DEVICE_ORDER:-}" '
      function add(found) {
        gsub(/[. ]/, "", found)
        if (found !~ /^[0-9]+$/) return
        if (found ~ /^(90|100|120)$/) found = found "a"
        if (!seen[found]++) joined = joined (joined == "" ? "" : ",") found
      }
      { index_of[NR] = $1; uuid_of[NR] = $2; capability_of[NR] = $3 }
      END {
        gsub(/ /, "", visible)
        wanted = split(visible, entries, ",")
        for (i = 1; i <= wanted; ++i) {
          all = entries[i] == "all" || entries[i] ~ /^MIG-/ ||
                (entries[i] ~ /^[0-9]+$/ && order != "PCI_BUS_ID")
          known = 0
          for (gpu = 1; gpu <= NR; ++gpu)
            if (all || entries[i] == index_of[gpu] ||
                (entries[i] ~ /^GPU-/ && index(uuid_of[gpu], entries[i]) == 1)) {
              add(capability_of[gpu])
              known = 1
            }
          if (!known) break  # as CUDA does: what follows an entry of no GPU is not visible
        }
        if (joined != "") print joined
      }'
}
