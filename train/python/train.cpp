// ringlet.train(): the command `ringlet train`.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>

#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/data/kept_input.h"
#include "ringlet/train/python/bindings.h"

namespace ringlet::python {
namespace {

/// The value of an option as on the command line.
std::string text_of(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "true" : "false";
  return py::str(value);
}

/// max_steps=3 is --max-steps=3; a list repeats the option.
std::vector<std::string> words_of(const std::filesystem::path& config, const py::kwargs& options) {
  std::vector<std::string> words{"ringlet", "train", "--config", config.string()};
  for (const auto& [key, value] : options) {
    std::string name = py::str(key);
    std::ranges::replace(name, '_', '-');
    const bool several = py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value);
    const auto values =
        several ? py::reinterpret_borrow<py::object>(value) : py::object(py::make_tuple(value));
    for (const py::handle one : values) words.push_back("--" + name + "=" + text_of(one));
  }
  return words;
}

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

void train(const std::filesystem::path& config, const py::kwargs& options) {
  const std::vector<std::string> words = words_of(config, options);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const py::gil_scoped_release others_run;
  cli::open_standard_streams();
  const RestoreSettings after;
  cli::Command program("ringlet", "");
  cli::add_train(program);
  cli::parse(program, static_cast<int>(argv.size()), argv.data());
  cli::check_output();
}

}  // namespace

void add_train(py::module_& module) {
  module.def("train", train, py::arg("config"),
             "Trains as `ringlet train --config CONFIG`. Keywords are options of the command line, "
             "which count before those of the file: max_steps=100, data=[\"a.csv\", \"b.csv\"].");
}

}  // namespace ringlet::python
