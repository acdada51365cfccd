// Ranks as processes of one host: a peer's memory is mapped by its descriptor and read in place.
#include <cstring>
#include <map>

#include "ringlet/comm/transports/board.h"
#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

class ShmTransport final : public BoardTransport {
 public:
  explicit ShmTransport(const Membership& member) : BoardTransport(member) { cpu::share_memory(); }

  // Peers read a copy of the sent bytes if the buffer's memory has no descriptor.
  void begin(const Call& call, const Tensor& buffer) override {
    const Device device = buffer.device();
    const bool readable = backend(device.type).descriptor(device, buffer.storage()->block()) >= 0;
    unreadable_ = readable ? nullptr : buffer.bytes();
    BoardTransport::begin(call,
                          readable ? buffer : empty(buffer.shape(), buffer.dtype(), Device{}));
  }
  Views exchange(std::span<const Transmission> sends, std::span<const Transmission> receives,
                 bool in_place) override {
    // The same bytes for several peers are copied once: the first one may read them already.
    for (std::size_t i = 0; unreadable_ && i < sends.size(); ++i)
      if (const auto& [peer, offset, nbytes] = sends[i];
          nbytes > 0 && (i == 0 || sends[i - 1].offset != offset || sends[i - 1].nbytes != nbytes))
        std::memcpy(announced_bytes(buffer()) + offset, unreadable_ + offset, nbytes);
    return BoardTransport::exchange(sends, receives, in_place);
  }

 private:
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

  const std::byte* unreadable_ = nullptr;  // the collective's buffer, if peers read a copy
  std::map<std::pair<int, int>, Mapping> mappings_;  // by rank and descriptor
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport(const Membership& membership) {
  return std::make_unique<ShmTransport>(membership);
}

}  // namespace ringlet::comm
