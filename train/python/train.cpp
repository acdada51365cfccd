// ringlet._ringlet.train(): the command `ringlet train`.
#include <fcntl.h>
#include <pybind11/stl.h>
#include <ext/stdio_sync_filebuf.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/data/bytes.h"
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

/// Meanwhile C and C++ print to a descriptor. Python's own prints go where they went.
class PrintsTo {
 public:
  explicit PrintsTo(int descriptor) {
    for (FILE*& file : files_) {
      file = fdopen(fcntl(descriptor, F_DUPFD_CLOEXEC, 0), "w");
      RINGLET_CHECK(file, "[train] standard output cannot be redirected");
    }
    setvbuf(files_[0], nullptr, _IOLBF, BUFSIZ);
    setvbuf(files_[1], nullptr, _IONBF, 0);
    out_ = std::cout.rdbuf(&buffer_.emplace(files_[0]));
    err_ = std::cerr.rdbuf(&error_buffer_.emplace(files_[1]));
    swap();
  }
  ~PrintsTo() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(err_);
    swap();
    for (FILE* const file : files_) std::fclose(file);
  }
  PrintsTo(const PrintsTo&) = delete;
  PrintsTo& operator=(const PrintsTo&) = delete;

 private:
  using Buffer = __gnu_cxx::stdio_sync_filebuf<char>;
  void swap() {
    std::swap(stdout, files_[0]);
    std::swap(stderr, files_[1]);
  }

  std::array<FILE*, 2> files_{};
  std::optional<Buffer> buffer_, error_buffer_;
  std::streambuf* out_ = nullptr;
  std::streambuf* err_ = nullptr;
};

/// Runs `ringlet train WORD...`, where the files named in `kept` have those bytes; the folder of
/// --output. `prints`: the descriptor that it prints to; negative: the process's own. Threads take
/// turns: standard output, kept inputs and settings are the process's.
std::string train(std::vector<std::string> words, const std::map<std::string, std::string>& kept,
                  int prints) {
  words.insert(words.begin(), {"ringlet", "train"});
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const py::gil_scoped_release others_run;
  static std::mutex trains;
  const std::lock_guard turn(trains);
  cli::open_standard_streams();
  const RestoreSettings after;
  std::optional<PrintsTo> printing;
  if (prints >= 0) printing.emplace(prints);
  for (const auto& [name, bytes] : kept) train::keep_input(name, bytes);
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
  module.def("train", train, py::arg("words"), py::arg("kept"), py::arg("prints"));
  module.def("train_options", train_options);
}

}  // namespace ringlet::python
