#!/bin/bash
# Installs what is missing, builds, and runs the throughput benchmark with the arguments given:
#   scripts/bench.sh --steps 3
set -euo pipefail
. "$(dirname "$0")/setup.sh"
cd "$root"
require_packages "${build_packages[@]}" "${bench_packages[@]}"
configure build -Dbench=enabled >&2
ninja -C build bench/throughput >&2
case " $* " in
  *" --threads-per-device"*) ;;
  *) set -- --threads-per-device 1 "$@" ;; # one-core devices, however many cores there are
esac
exec build/bench/throughput "$@"
