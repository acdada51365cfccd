#!/bin/sh
# compile.sh LOG PTX ARCHITECTURE NVCC...: compiles a file. LOG keeps ptxas' output on each kernel; all
# other output goes to stderr. PTX keeps the kernels' PTX for one of the architectures.
log=$1 ptx=$2 architecture=$3
shift 3
kept=$ptx.kept
mkdir -p "$kept"
"$@" --keep --keep-dir "$kept" 2>"$log.all"
code=$?
of_ptxas='^ptxas info|bytes stack frame, '
grep -E "$of_ptxas" "$log.all" >"$log"
grep -vE "$of_ptxas" "$log.all" >&2
for made in "$kept"/*.compute_"$architecture".ptx "$kept"/*.ptx; do  # a name for one of several, or the only one
  [ -e "$made" ] && mv "$made" "$ptx" && break
done
rm -rf "$log.all" "$kept"
exit $code
