#include "ringlet/train/parallel/released.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ringlet/core/error.h"

namespace ringlet::train {
namespace {

constexpr std::size_t kPattern = std::size_t{1} << 20;  // bytes of 0xFF, mapped again and again

// A file of the pattern; closed by the caller.
int make_pattern() {
  const int fd = memfd_create("ringlet-released", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kPattern) != 0) return fd;
  void* bytes = mmap(nullptr, kPattern, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) return fd;
  std::memset(bytes, 0xFF, kPattern);
  munmap(bytes, kPattern);
  return fd;
}

std::byte* map_pattern(std::size_t nbytes) {
  void* range =
      mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const int fd = make_pattern();
  bool good = fd >= 0;
  for (std::size_t at = 0; good && at < nbytes; at += kPattern)
    good = mmap(static_cast<std::byte*>(range) + at, std::min(kPattern, nbytes - at), PROT_READ,
                MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
  if (fd >= 0) close(fd);
  if (good) return static_cast<std::byte*>(range);
  munmap(range, nbytes);
  return nullptr;
}

}  // namespace

std::shared_ptr<Storage> released_storage(std::size_t nbytes, Device device) {
  if (device.type != DeviceType::cpu || nbytes == 0)
    return std::make_shared<Storage>(nullptr, nbytes, device, [] {});
  std::byte* bytes = map_pattern(nbytes);
  RINGLET_CHECK(bytes, "[sharding] cannot map ", nbytes, " bytes: ", std::strerror(errno));
  return std::make_shared<Storage>(bytes, nbytes, device,
                                   [bytes, nbytes] { munmap(bytes, nbytes); });
}

}  // namespace ringlet::train
