#include "ringlet/train/cli/exit.h"

#include <CLI/CLI.hpp>

#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/usage.h"

namespace ringlet::cli {

int run(CLI::App& app, int argc, char** argv) {
  return exit_code("ringlet", [&] {
    try {
      app.parse(argc, argv);
      return 0;
    } catch (const Exit& exit) {
      return exit.code;
    } catch (const CLI::Success& help) {
      return app.exit(help);
    } catch (const CLI::ParseError& error) {
      return report("ringlet", usage_error(app, error), kBadInput);
    }
  });
}

}  // namespace ringlet::cli
