// Exit code 77, which Meson calls skipped, where RINGLET_ISA names a set that this processor lacks.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/error.h"

int main(int argc, char** argv) {
  try {
    ringlet::cpu::isa();
  } catch (const ringlet::InputError& error) {
    std::puts(error.what());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
