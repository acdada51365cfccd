// Runs the cases. All of them together must execute every instruction of the build's kernels.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tested.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int failed = context.run();
  if (argc > 1) return failed;  // possibly not all cases
  const auto missing = ringlet::emulated::untested();
  for (const auto& [opcode, kernel] : missing)
    std::fprintf(stderr, "no case executes %s, of %s\n", opcode.c_str(), kernel.c_str());
  return failed != 0 || !missing.empty();
}
