// `ringlet make-data`: the project's own data set, for learning and for trying things out.
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/data/synthetic.h"

namespace ringlet::cli {
namespace {

struct MakeDataOptions {
  std::filesystem::path folder;
  std::uint64_t seed = 42;  // as in `ringlet train`, which generates the same data
  std::size_t rows = train::SyntheticSizes{}.nli_train;
};

/// All splits in proportion to the rows of NLI training.
train::SyntheticSizes sizes_for(std::size_t rows) {
  constexpr train::SyntheticSizes kUsual;
  const auto scaled = [&](std::size_t usual) {
    return std::max<std::size_t>(usual * rows / kUsual.nli_train, 1);
  };
  return {rows,
          scaled(kUsual.nli_dev),
          scaled(kUsual.sts_train),
          scaled(kUsual.sts_dev),
          scaled(kUsual.digits_train),
          scaled(kUsual.digits_test)};
}

void make_data(const MakeDataOptions& options) {
  check_new_folder("FOLDER", options.folder);
  train::write_synthetic(options.folder, options.seed, sizes_for(options.rows));
  fmt::print("wrote NLI pairs, scored pairs and digits to {}\n", options.folder.string());
}

}  // namespace

void add_make_data(Command& program) {
  Command& command = program.add_command(
      "make-data", "Write a small data set: NLI-like pairs, scored pairs, drawn digits");
  const auto options = std::make_shared<MakeDataOptions>();
  command.add("FOLDER", options->folder, "A new or empty folder").required = true;
  add_seed(command, options->seed, "The same seed gives the same files");
  command.add("--rows", options->rows, Range{30, 1'000'000},
              "NLI pairs for training; the rest in proportion");
  command.run = [options] { make_data(*options); };
}

}  // namespace ringlet::cli
