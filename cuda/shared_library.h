// A library that is looked for when it is needed first: programs that never need it need not load
// it, nor their machines have it.
#pragma once

#include <string>

namespace ringlet::cuda {

class SharedLibrary {
 public:
  /// Where programs look for libraries, then in `folders` (a colon between two). Error "[TAG] ...",
  /// with the loader's words and `advice`, where it is not.
  SharedLibrary(const char* tag, const std::string& name, const char* folders,
                const std::string& advice);

  /// Sets a pointer to the function of that name; Error where there is none.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(address(name));
  }

 private:
  void* address(const char* name) const;

  const char* tag_;
  void* library_ = nullptr;  // stays for as long as the process lives
};

}  // namespace ringlet::cuda
