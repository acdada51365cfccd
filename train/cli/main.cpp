// The program `ringlet`.
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"

namespace ringlet::cli {
namespace {

/// Returns 0, the code of Exit, or exit_code()'s for an error.
int run(Command& program, int argc, char** argv) {
  return exit_code("ringlet", [&] {
    try {
      parse(program, argc, argv);
      return 0;
    } catch (const Exit& exit) {
      return exit.code;
    }
  });
}

}  // namespace
}  // namespace ringlet::cli

int main(int argc, char** argv) {
  using namespace ringlet::cli;
  Command program("ringlet", "Trains and runs sentence encoders.");
  program.footer =
      "Environment: RINGLET_ISA chooses the CPU's kernels (portable, avx2, avx512, avx512_bf16,\n"
      "amx), RINGLET_NUM_THREADS the threads of a device (default: the processors allowed).";
  program.version = "ringlet " RINGLET_VERSION;
  add_train(program);
  add_audit(program);
  add_evaluate(program);
  add_encode(program);
  add_search(program);
  add_mine(program);
  add_reduce(program);
  add_explain(program);
  add_info(program);
  add_run(program, argc, argv);
  add_make_data(program);
  return run(program, argc, argv);
}
