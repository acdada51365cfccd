// The program `ringlet`.
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"

int main(int argc, char** argv) {
  using namespace ringlet::cli;
  Command program("ringlet", "Trains and runs sentence encoders.");
  program.footer =
      "Environment: RINGLET_ISA chooses the CPU's kernels (portable, avx2, avx512, avx512_bf16,\n"
      "amx), RINGLET_NUM_THREADS the threads of a device (default: the processors allowed).";
  program.version = "ringlet " RINGLET_VERSION;
  for (const auto add : {add_train, add_audit, add_evaluate, add_encode, add_search, add_mine,
                         add_reduce, add_explain, add_info, add_run, add_make_data})
    add(program);
  return exit_code(program.name.c_str(), [&] {
    parse(program, argc, argv);
    return 0;
  });
}
