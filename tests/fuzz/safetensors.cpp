// Any bytes as a safetensors file: every tensor must be readable, or InputError is thrown.
#include "ringlet/core/io/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

void read_everything(const std::string& path) {
  const auto file = ringlet::SafeTensors::open(path);
  std::size_t sum = 0;
  for (const std::string& name : file.names()) {
    try {
      const ringlet::Tensor tensor = file.load(name);
      for (std::size_t i = 0; i < tensor.nbytes(); ++i)
        sum += static_cast<std::size_t>(tensor.bytes()[i]);
    } catch (const ringlet::InputError&) {  // a dtype that ringlet lacks
    }
  }
  if (sum == static_cast<std::size_t>(-1)) std::abort();  // the sum must be computed
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t nbytes) {
  const int fd = memfd_create("fuzz", 0);
  if (fd < 0 || write(fd, data, nbytes) != static_cast<ssize_t>(nbytes)) std::abort();
  try {
    read_everything("/proc/self/fd/" + std::to_string(fd));
  } catch (const ringlet::InputError&) {
  }
  close(fd);
  return 0;
}
