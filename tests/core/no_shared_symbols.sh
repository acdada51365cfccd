#!/bin/sh
# no_shared_symbols.sh ISA=LIBRARY...: a kernel library may define only weak symbols that carry its
# instruction set's name. The linker keeps one copy of a weak symbol, so a program could otherwise
# run AVX-512 code on a processor without it.
status=0
for pair in "$@"; do
  isa=${pair%%=*} library=${pair#*=}
  # DW.ref.* are data of the exception tables, the same on every instruction set.
  stray=$(nm -C --defined-only "$library" | awk '$2 ~ /^[WVu]$/' | grep -v ' DW\.ref\.' |
    grep -v "cpu::$isa::")
  defined=$(nm --defined-only "$library" | grep -c ' T ')
  [ "$defined" -gt 0 ] || { echo "$library defines nothing"; status=1; }
  [ -z "$stray" ] || { echo "$library:"; echo "$stray"; status=1; }
done
exit $status
