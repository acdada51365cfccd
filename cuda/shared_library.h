// A library that is loaded at first use: programs that never use it need not load or install it.
#pragma once

#include <cstddef>
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

/// NCCL's library and its version. Its functions are in comm/transports/nccl_communicator.h.
struct NcclLibrary {
  SharedLibrary file;
  std::size_t version;
};

/// The first call searches the library. Error if there is none.
const NcclLibrary& open_nccl();

/// Error if collectives do not work with this version (NCCL's version code).
void check_nccl_version(std::size_t version);

/// "2.28.9" for 22809, the version code of cuBLAS and NCCL.
std::string dotted(std::size_t version);

}  // namespace ringlet::cuda
