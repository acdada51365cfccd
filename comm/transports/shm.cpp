// Ranks as processes of one host: a peer's memory is mapped by its descriptor and read in place.
#include <map>

#include "ringlet/comm/transports/board.h"
#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

class ShmTransport final : public BoardTransport {
 public:
  explicit ShmTransport(const Membership& member) : BoardTransport(member) { cpu::share_memory(); }

 private:
  bool is_readable(const Tensor& buffer) const override {
    const Device device = buffer.device();
    return backend(device.type).descriptor(device, buffer.storage()->block()) >= 0;
  }
  // The allocator never closes a descriptor, so a mapping stays valid as long as the peer lives.
  const std::byte* view(const Transmission& sent, const Location& theirs, const StreamEvent*,
                        std::byte*) override {
    const auto key = std::pair(sent.peer, theirs.fd);
    auto found = mappings_.find(key);
    if (found == mappings_.end()) {
      const int process = board().state(sent.peer).process.load();
      found =
          mappings_.try_emplace(key, member(), sent.peer, process, theirs.fd, /*writable=*/false)
              .first;
    }
    return found->second.at(theirs.offset + sent.offset, sent.nbytes);
  }

  std::map<std::pair<int, int>, Mapping> mappings_;  // by rank and descriptor
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport(const Membership& membership) {
  return std::make_unique<ShmTransport>(membership);
}

}  // namespace ringlet::comm
