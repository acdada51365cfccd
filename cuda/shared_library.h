// A library that is loaded at first use: programs that never use it need not load or install it.
#pragma once

#include <string>

namespace ringlet::cuda {

class SharedLibrary {
 public:
  /// Searches the default library path, then `folders` (separated by colons). Error "[TAG] ...",
  /// with the loader's message and `advice`, if it is not found.
  SharedLibrary(const char* tag, const std::string& name, const char* folders,
                const std::string& advice);

  /// Sets a pointer to the function of that name; Error if there is none.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(address(name));
  }

 private:
  void* address(const char* name) const;

  const char* tag_;
  void* library_ = nullptr;  // loaded until the process exits
};

}  // namespace ringlet::cuda
