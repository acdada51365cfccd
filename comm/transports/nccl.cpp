// Ranks with a GPU each: a step is one group of NCCL sends and receives. Segments alternate between
// two streams: one is transferred on the first while another is added on the second. Received data
// waits in one of a few slots to be added.
//
//   comm     | group of segment 0 | group of segment 1 | next group of segment 0 |  …
//   reduce                        | segment 0 is added | segment 1 is added      |  …
#include <algorithm>
#include <array>
#include <cstdint>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/transports/nccl_rank.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

bool overlap(const Transmission& a, const Transmission& b) {
  return a.offset < b.offset + b.nbytes && b.offset < a.offset + a.nbytes;
}

// The received data of one step, until it has been added.
struct Slot {
  explicit Slot(Device device) : arrived(device), added(device) {}
  Tensor bytes;
  StreamEvent arrived, added;
  std::vector<Transmission> places;  // that the addition reads and writes; empty: not used yet
};

// The two streams and the slots, on the rank's GPU.
struct Lines {
  explicit Lines(Device device)
      : comm(device),
        reduce(device),
        begun(device),
        sent(device),
        added(device),
        slots{Slot(device), Slot(device), Slot(device), Slot(device)} {}
  SideStream comm, reduce;
  StreamEvent begun, sent, added;
  std::array<Slot, 4> slots;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Membership& membership, Transport& host)
      : rank_(membership, host), engine_(make_nccl_engine(rank_)) {}

  void begin(const Call& call, const Tensor& buffer) override {
    rank_.enter(call, buffer.device());
    buffer_ = buffer;
    if (!lines_) lines_.emplace(buffer.device());
    for (Slot& slot : lines_->slots) slot.places.clear();
    next_slot_ = 0;
    captures_ = captures_ || backend(buffer.device().type).is_captured(buffer.device());
    lines_->begun.record();
    for (const SideStream* stream :
         {&lines_->comm, &lines_->reduce}) {  // so that both are captured
      const StreamGuard on(*stream);
      lines_->begun.make_wait();
    }
  }

  Views exchange(std::span<const Transmission> sends, std::span<const Transmission> receives,
                 bool in_place) override {
    views_.clear();
    if (in_place) {
      current_.emplace(lines_->comm);
      for (const Transmission& receive : receives) views_.push_back(place(receive));
      enqueue(sends, receives);
      return views_;
    }
    Slot& slot = lines_->slots[next_slot_++ % lines_->slots.size()];
    {
      const StreamGuard on(lines_->comm);
      if (!slot.places.empty()) slot.added.make_wait();
      slot.places.clear();
      make_room(slot, receives);
      enqueue(sends, receives);
      slot.arrived.record();
    }
    current_.emplace(lines_->reduce);
    slot.arrived.make_wait();
    slot.places.assign(receives.begin(), receives.end());
    adding_ = &slot;
    return views_;
  }

  void release() override {
    if (adding_) adding_->added.record();
    adding_ = nullptr;
    current_.reset();
  }

  std::int64_t segments_at_once() const override {
    return std::tuple_size_v<decltype(Lines::slots)>;
  }

  void finish() override {
    join();
    rank_.leave();
    buffer_ = {};
  }

  // The alarm is raised: the watchdog aborts the work in flight.
  void abandon() noexcept override {
    adding_ = nullptr;
    current_.reset();
    try {
      if (lines_) join();
    } catch (const Error&) {
      // The device has failed as well: nothing of it is used any more.
    }
    buffer_ = {};
  }

  bool is_ready_for_capture() const override { return rank_.has_communicator(); }

  Engine* engine() override { return engine_.get(); }

 private:
  std::byte* place(const Transmission& at) const { return announced_bytes(buffer_) + at.offset; }

  // Memory for each receive, with the offset of its place from a multiple of 16 bytes. Kernels that
  // add read 16 bytes at a time if the alignment of all operands permits.
  void make_room(Slot& slot, std::span<const Transmission> receives) {
    constexpr std::size_t kPack = 16;
    std::size_t end = 0;
    std::vector<std::size_t> starts;
    for (const Transmission& receive : receives) {
      end = (end + kPack - 1) / kPack * kPack +
            reinterpret_cast<std::uintptr_t>(place(receive)) % kPack;
      starts.push_back(end);
      end += receive.nbytes;
    }
    if (slot.bytes.nbytes() < end || !slot.bytes) {
      if (captures_ && slot.bytes) kept_.push_back(slot.bytes);  // graphs go on writing to it
      slot.bytes = {};
      slot.bytes = empty({static_cast<std::int64_t>(end)}, DType::u8, buffer_.device());
    }
    for (const std::size_t start : starts) views_.push_back(slot.bytes.mutable_bytes() + start);
  }

  // Before a group that sends sums. None receives where one is made still: our schedules send a sum
  // on before they take the whole one in its place.
  void wait_for_sums(std::span<const Transmission> sends) const {
    for (const Slot& slot : lines_->slots)
      if (std::any_of(sends.begin(), sends.end(), [&](const Transmission& send) {
            return std::any_of(slot.places.begin(), slot.places.end(),
                               [&](const Transmission& added) { return overlap(send, added); });
          }))
        slot.added.make_wait();
  }

  void enqueue(std::span<const Transmission> sends, std::span<const Transmission> receives) {
    wait_for_sums(sends);
    const auto has_bytes = [](const Transmission& one) { return one.nbytes > 0; };
    if (std::none_of(sends.begin(), sends.end(), has_bytes) &&
        std::none_of(receives.begin(), receives.end(), has_bytes))
      return;
    rank_.group([&](const NcclFunctions& nccl, ncclComm_t handle, cudaStream_t stream) {
      for (const Transmission& send : sends)
        if (has_bytes(send))
          nccl.ncclSend(place(send), send.nbytes, ncclUint8, send.peer, handle, stream);
      for (std::size_t i = 0; i < receives.size(); ++i)
        if (has_bytes(receives[i]))
          nccl.ncclRecv(const_cast<std::byte*>(views_[i]), receives[i].nbytes, ncclUint8,
                        receives[i].peer, handle, stream);
    });
  }

  // The group's stream goes on behind both.
  void join() {
    const auto behind = [](const SideStream& stream, const StreamEvent& end) {
      {
        const StreamGuard on(stream);
        end.record();
      }
      end.make_wait();
    };
    behind(lines_->comm, lines_->sent);
    behind(lines_->reduce, lines_->added);
  }

  std::optional<Lines> lines_;
  std::vector<Tensor> kept_;
  bool captures_ = false;  // some collective was
  NcclRank rank_;          // goes before what its work on the device uses
  std::unique_ptr<Engine> engine_;
  Tensor buffer_;
  std::optional<StreamGuard> current_;  // from receive() to release()
  std::size_t next_slot_ = 0;
  Slot* adding_ = nullptr;  // null: nothing is added in this step
  std::vector<const std::byte*> views_;
};

}  // namespace

std::string why_no_nccl() { return ""; }
void check_nccl() { nccl(); }

std::unique_ptr<Transport> make_nccl_transport(const Membership& membership, Transport& host,
                                               TransportKind host_kind) {
  if (host_kind == TransportKind::thread) membership.note_lazy_loading();
  return std::make_unique<NcclTransport>(membership, host);
}

}  // namespace ringlet::comm
