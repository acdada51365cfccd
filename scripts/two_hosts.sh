#!/bin/bash
# Runs a program as on two hosts, each with a separate `ringlet run --nnodes 2`, and prints how. As
# root, the hosts are two network namespaces joined by a virtual cable. Without root, both are at
# this host's loopback address. In both cases ranks of different nodes communicate over gloo.
#   scripts/two_hosts.sh [--nproc-per-node N] PROGRAM ARGUMENTS...
# Exits with the exit code of the job. RINGLET is the program `ringlet` (build/train/ringlet).
# TWO_HOSTS=loopback selects the loopback address, also for root.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
ringlet=${RINGLET:-$root/build/train/ringlet}
options=()
usage="usage: $0 [--nproc-per-node N] PROGRAM ARGUMENTS..."
while [ $# -gt 0 ] && [[ $1 == --* ]]; do
  [ "$1" != --help ] || { echo "$usage"; exit; }
  if [[ $1 == *=* ]]; then
    options+=("$1")
    shift
  else
    [ $# -gt 1 ] || break
    options+=("$1" "$2")
    shift 2
  fi
done
[ $# -gt 0 ] && [[ $1 != --* ]] || { echo "$usage" >&2; exit 2; }

first=ringlet-$$-a second=ringlet-$$-b
clean_up() {
  ip netns delete $first 2>/dev/null
  ip netns delete $second 2>/dev/null
}

# Both ends of a virtual cable, each in a separate, empty namespace.
join_namespaces() {
  [ "${TWO_HOSTS:-}" != loopback ] && [ "$(id -u)" = 0 ] && command -v ip >/dev/null || return 1
  ip netns add $first && ip netns add $second &&
    ip link add veth0 netns $first type veth peer name veth0 netns $second &&
    ip -n $first address add 10.77.0.1/24 dev veth0 &&
    ip -n $second address add 10.77.0.2/24 dev veth0 &&
    ip -n $first link set veth0 up && ip -n $second link set veth0 up &&
    ip -n $first link set lo up && ip -n $second link set lo up
} 2>/dev/null

# The first of a few ports without a listener, below those that the system assigns itself.
free_port() {
  local i port
  for i in {0..99}; do
    port=$((20000 + ($$ + i) % 10000))
    (: 3<>"/dev/tcp/$address/$port") 2>/dev/null || { echo $port; return; }
  done
  echo "$0: no free port from $((20000 + $$ % 10000)) on" >&2
  return 2
}

# The hosts share only the address, the port and the secret.
RINGLET_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RINGLET_TOKEN
trap clean_up EXIT
if join_namespaces; then
  echo "two hosts: network namespaces 10.77.0.1 and 10.77.0.2" >&2
  address=10.77.0.1
  on_first=(ip netns exec $first) on_second=(ip netns exec $second)
else
  clean_up
  echo "two hosts: two nodes at the loopback address (namespaces need root and ip)" >&2
  address=127.0.0.1
  on_first=() on_second=()
fi
# A new namespace has no other listeners.
if [ $address = 127.0.0.1 ]; then port=$(free_port) || exit; else port=29500; fi

node() {
  local rank=$1
  shift
  "$@" "$ringlet" run --nnodes 2 --node-rank "$rank" --master-addr $address --master-port $port \
    ${options[@]+"${options[@]}"} "${program[@]}"
}
program=("$@")
node 1 ${on_second[@]+"${on_second[@]}"} &
other=$!
node 0 ${on_first[@]+"${on_first[@]}"}
code=$?
wait $other
other_code=$?
[ $code -ne 0 ] || code=$other_code
exit $code
