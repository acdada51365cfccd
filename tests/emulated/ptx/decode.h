// Decoding: from PTX text to runnable kernels.
#pragma once

#include <map>
#include <memory>

#include "../gpu/memory.h"
#include "program.h"

namespace ringlet::emulated {

/// A PTX module. Kernels are decoded on first use. `.global` and `.const` variables live in pinned
/// host memory, which all devices can access.
class Module {
 public:
  /// `text`: a PTX module as nvcc embeds it.
  explicit Module(const std::string& text);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Throws std::runtime_error if there is no such kernel or an instruction is unknown.
  Kernel& kernel(const std::string& name);
  std::vector<std::string> kernel_names() const;

 private:
  ModuleSource source_;
  std::map<std::string, Address> variables_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace ringlet::emulated
