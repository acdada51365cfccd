// The program `ringlet`.
#include <CLI/CLI.hpp>

#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/usage.h"

namespace ringlet::cli {
namespace {

/// Returns 0, the code of Exit, or exit_code()'s for an error.
int run(CLI::App& app, int argc, char** argv) {
  return exit_code("ringlet", [&] {
    try {
      parse(app, argc, argv);
      return 0;
    } catch (const Exit& exit) {
      return exit.code;
    }
  });
}

}  // namespace
}  // namespace ringlet::cli

int main(int argc, char** argv) {
  CLI::App app{"Trains and runs sentence encoders.", "ringlet"};
  app.require_subcommand(1);
  app.footer(
      "Environment: RINGLET_ISA chooses the CPU's kernels (portable, avx2, avx512, avx512_bf16,\n"
      "amx), RINGLET_NUM_THREADS the threads of a device (default: the processors allowed).");
  app.set_version_flag("--version", "ringlet " RINGLET_VERSION);
  ringlet::cli::add_train(app);
  ringlet::cli::add_evaluate(app);
  ringlet::cli::add_encode(app);
  ringlet::cli::add_search(app);
  ringlet::cli::add_mine(app);
  ringlet::cli::add_reduce(app);
  ringlet::cli::add_explain(app);
  ringlet::cli::add_info(app);
  ringlet::cli::add_run(app, argc, argv);
  ringlet::cli::add_make_data(app);
  return ringlet::cli::run(app, argc, argv);
}
