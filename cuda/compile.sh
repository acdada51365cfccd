#!/bin/sh
# compile.sh LOG COMMAND...: a compiler's command, of which LOG keeps what ptxas says of each kernel;
# all else that it says goes to stderr.
log=$1
shift
"$@" 2>"$log.all"
code=$?
of_ptxas='^ptxas info|bytes stack frame, '
grep -E "$of_ptxas" "$log.all" >"$log"
grep -vE "$of_ptxas" "$log.all" >&2
rm -f "$log.all"
exit $code
