#!/bin/sh
# compile.sh LOG COMMAND...: runs a compiler. LOG keeps ptxas's output on each kernel; all other
# output goes to stderr.
log=$1
shift
"$@" 2>"$log.all"
code=$?
of_ptxas='^ptxas info|bytes stack frame, '
grep -E "$of_ptxas" "$log.all" >"$log"
grep -vE "$of_ptxas" "$log.all" >&2
rm -f "$log.all"
exit $code
