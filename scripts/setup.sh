# Sourced by the scripts beside it: what must be installed, and how a build folder is made.
# Debian 12 is what this is tested on; Ubuntu 24.04 has the same packages but is untested.

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
