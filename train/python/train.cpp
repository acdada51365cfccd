// ringlet._ringlet.train(): the command `ringlet train`.
#include <pybind11/stl.h>

#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/data/kept_input.h"
#include "ringlet/train/python/bindings.h"

namespace ringlet::python {
namespace {

/// State of the process after a command: processors of a device, the precision of products, pipes.
struct RestoreSettings {
  int threads = threads_per_device();
  MatmulPrecision precision = matmul_precision();
  ~RestoreSettings() {
    set_threads_per_device(threads);
    set_matmul_precision(precision);
    train::release_kept_inputs();
  }
};

/// Runs `ringlet train WORD...`; the folder of --output.
std::string train(std::vector<std::string> words) {
  words.insert(words.begin(), {"ringlet", "train"});
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const py::gil_scoped_release others_run;
  cli::open_standard_streams();
  const RestoreSettings after;
  cli::Command program("ringlet", "");
  cli::add_train(program);
  cli::parse(program, static_cast<int>(argv.size()), argv.data());
  cli::check_output();
  const cli::Option& output = *program.commands.front().find("--output");
  return output.given.empty() ? output.usual : output.given.back().value;
}

/// The options of `ringlet train`, without dashes, each with its name among Hugging Face's
/// arguments, if it has one.
std::vector<std::pair<std::string, std::string>> train_options() {
  cli::Command program("ringlet", "");
  cli::add_train(program);
  std::vector<std::pair<std::string, std::string>> all;
  for (const cli::Option& option : program.commands.front().options)
    all.emplace_back(option.name().substr(2), option.setting);
  return all;
}

}  // namespace

void add_train(py::module_& module) {
  module.def("train", train, py::arg("words"));
  module.def("train_options", train_options);
}

}  // namespace ringlet::python
