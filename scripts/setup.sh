# Sourced by the other scripts: the packages to install, and the making of a build folder. Tested on
# Debian 12; Ubuntu 24.04 has the same packages but is untested.

# Prints a script's top comment if the first argument is -h or --help: help_wanted "$@" && exit.
help_wanted() {
  case ${1:-} in -h | --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" ;; *) false ;; esac
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Clones in different folders share the objects of ccache.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=true

build_packages=(g++ meson ninja-build pkg-config libeigen3-dev libfmt-dev
  libgloo-dev libminizip-dev libssl-dev libtomlplusplus-dev libutf8proc-dev nlohmann-json3-dev zlib1g-dev)
test_packages=(doctest-dev cmake)
# Packages for checks that are skipped if these are missing and cannot be installed.
check_packages=(ccache clang-format doxygen pybind11-dev python3-dev python3-numpy python3-venv)
# For scripts/test.sh all.
sanitizer_packages=(clang libclang-rt-14-dev lld valgrind)

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

# Installs the packages given, or prints the one command that does and exits with 2.
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

# The same, but continues without packages that cannot be installed.
want_packages() {
  command -v dpkg-query >/dev/null && can_install || return 0
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}" || true
}

# configure FOLDER [meson options]: creates the build folder or changes its options.
configure() {
  if [ -f "$1/build.ninja" ]; then
    meson setup --reconfigure "$@" >"$1/configure.log" 2>&1 || { cat "$1/configure.log"; return 1; }
  else
    meson setup "$@"
  fi
}

# The architectures of the GPUs here, as nvcc names them, joined by commas: 90a for compute
# capability 9.0. Nothing without a GPU.
gpu_architectures() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' |
    sed -En 's/^(90|100|120)$/\1a/; /^[0-9]+a?$/p' | awk '!seen[$0]++' | paste -sd,
}

# The best of this processor's instruction sets that Meson's option isa names.
instruction_set() {
  case $(grep -m1 '^flags' /proc/cpuinfo) in *avx512vl*) echo avx512 ;; *avx2*) echo avx2 ;; *) echo portable ;; esac
}
