// Ranks on several hosts: gloo's point-to-point messages over TCP. Received data is written to its
// place if it is to be copied, else to a separate slot. The first message to each peer is the call
// itself, so that sizes are known to agree before bytes move.
#include "ringlet/comm/transports/gloo.h"

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/transports/store_progress.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Buffer = ::gloo::transport::UnboundBuffer;

constexpr std::uint64_t kCallSlot = std::uint64_t{0x70} << 56;
constexpr std::uint64_t kStepSlots = std::uint64_t{0x71} << 56;

/// A thread for each group over gloo, because gloo's waits do not see the alarm. Ends a wait inside
/// gloo when the alarm is raised, and publishes this rank's progress.
class GlooWatchdog {
 public:
  GlooWatchdog(std::shared_ptr<Store> store, StoreProgress& progress)
      : store_(std::move(store)), progress_(progress) {}
  ~GlooWatchdog() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  GlooWatchdog(const GlooWatchdog&) = delete;
  GlooWatchdog& operator=(const GlooWatchdog&) = delete;

  void watch(::gloo::transport::UnboundBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    watched_ = buffer;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    auto publish_at = std::chrono::steady_clock::now() + progress_.interval();
    while (!stop_) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      if (!store_->raised() && std::chrono::steady_clock::now() >= publish_at) {
        lock.unlock();
        publish();
        publish_at = std::chrono::steady_clock::now() + progress_.interval();
        lock.lock();
      }
      if (!watched_ || !store_->raised()) continue;
      watched_->abortWaitRecv();
      watched_->abortWaitSend();
    }
  }

  void publish() const noexcept {
    try {
      progress_.publish();
    } catch (const std::exception&) {  // the store has ended: the alarm reports it
    }
  }

  std::shared_ptr<Store> store_;
  StoreProgress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  ::gloo::transport::UnboundBuffer* watched_ = nullptr;
  std::thread thread_ = start_thread([this] { run(); });
};

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(const Membership& membership)
      : membership_(membership),
        progress_(membership_, "progress"),
        watchdog_(membership.store, progress_),
        peers_(static_cast<std::size_t>(membership.size)),
        context_(connect_gloo(membership_)),
        engine_(make_gloo_engine(membership_, context_)) {}
  ~GlooTransport() override {
    record_left(membership_);
    abandon();
  }

  void begin(const Call& call, const Tensor& buffer) override {
    membership_.check_alarm();
    call_ = call;
    step_ = 0;
    enter(step_);
    buffer_ = buffer;
    for (Peer& peer : peers_) peer.called = peer.asked = peer.heard = false;
  }

  Views exchange(std::span<const Transmission> sends, std::span<const Transmission> receives,
                 bool in_place) override {
    const NoSigpipe no_sigpipe;
    // First: gloo sends at once what a peer already waits for.
    for (const Transmission& receive : receives) ask_for_call(receive.peer);
    for (std::size_t i = 0; i < sends.size(); ++i) send(sends[i], slot(sends, i));
    for (const Transmission& receive : receives) receive_call(receive.peer);

    std::size_t nbytes = 0;
    for (const Transmission& receive : receives) nbytes += receive.nbytes;
    if (!in_place && slots_.nbytes() < nbytes)
      slots_ = empty({static_cast<std::int64_t>(nbytes)}, DType::u8, Device{});
    std::byte* free = in_place ? nullptr : slots_.mutable_bytes();
    views_.clear();
    ins_.clear();
    for (std::size_t i = 0; i < receives.size(); ++i) {
      const Transmission& receive = receives[i];
      std::byte* view = in_place ? announced_bytes(buffer_) + receive.offset : free;
      views_.push_back(view);
      if (free) free += receive.nbytes;
      if (receive.nbytes == 0) continue;
      ins_.push_back({receive.peer, context_->createUnboundBuffer(view, receive.nbytes)});
      guarded(receive.peer, [&](Peer&) {
        ins_.back().buffer->recv(receive.peer, slot(receives, i), 0, receive.nbytes);
      });
    }
    for (const In& in : ins_) wait_receive(in.peer, *in.buffer);
    return views_;
  }

  void release() override { enter(++step_); }

  void finish() override {
    const NoSigpipe no_sigpipe;
    for (int rank = 0; rank < membership_.size; ++rank) {
      Peer& peer = at(rank);
      for (; peer.sends > 0; --peer.sends) wait_send(rank, *peer.out);
      if (peer.called) wait_send(rank, *peer.call_out);
      peer.called = false;
      peer.out = nullptr;
    }
    enter(Progress::kFinished);
  }

  void abandon() noexcept override {
    for (Peer& peer : peers_) peer = Peer();
    ins_.clear();
    if (!membership_.store->raised()) return;
    try {
      context_->closeConnections();
    } catch (const std::exception&) {
      // They are closed already.
    }
  }

  Engine* engine() override { return engine_.get(); }

 private:
  struct Peer {
    std::unique_ptr<Buffer> out;  // the whole buffer of this collective
    std::unique_ptr<Buffer> call_out, call_in;
    Call theirs;
    int sends = 0;        // not yet waited for
    bool called = false;  // the call has been sent in this collective
    bool asked = false;   // the peer's is being received
    bool heard = false;   // and has been received
  };

  struct In {
    int peer;
    std::unique_ptr<Buffer> buffer;
  };

  void enter(std::uint64_t step) { progress_.enter({call_.sequence, step}); }
  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  /// The messages of a step to, or from, one peer are numbered.
  std::uint64_t slot(std::span<const Transmission> all, std::size_t i) const {
    const auto earlier = std::ranges::count(all.first(i), all[i].peer, &Transmission::peer);
    return kStepSlots | (call_.sequence & 0xffffff) << 32 | (step_ & 0xffffff) << 8 |
           static_cast<std::uint64_t>(earlier);
  }

  void send(const Transmission& send, std::uint64_t slot) {
    guarded(send.peer, [&](Peer& peer) {
      if (!peer.called) {
        if (!peer.call_out) peer.call_out = context_->createUnboundBuffer(&call_, sizeof(call_));
        peer.call_out->send(send.peer, kCallSlot, 0, sizeof(call_));
        peer.called = true;
      }
      if (send.nbytes == 0) return;
      if (!peer.out)
        peer.out = context_->createUnboundBuffer(announced_bytes(buffer_), buffer_.nbytes());
      peer.out->send(send.peer, slot, send.offset, send.nbytes);
      ++peer.sends;
    });
  }

  // The peer's call is received once in a collective.
  void ask_for_call(int rank) {
    guarded(rank, [&](Peer& peer) {
      if (std::exchange(peer.asked, true)) return;
      if (!peer.call_in)
        peer.call_in = context_->createUnboundBuffer(&peer.theirs, sizeof(peer.theirs));
      peer.call_in->recv(rank, kCallSlot, 0, sizeof(peer.theirs));
    });
  }
  void receive_call(int rank) {
    Peer& peer = at(rank);
    if (peer.heard) return;
    wait_receive(rank, *peer.call_in);
    membership_.compare(rank, peer.theirs, call_);
    peer.heard = true;
  }

  void wait_receive(int rank, Buffer& buffer) {
    guarded(rank, [&](Peer&) {
      watchdog_.watch(&buffer);
      if (!buffer.waitRecv(membership_.timeout)) membership_.check_alarm();
    });
  }
  void wait_send(int rank, Buffer& buffer) {
    guarded(rank, [&](Peer&) {
      watchdog_.watch(&buffer);
      if (!buffer.waitSend(membership_.timeout)) membership_.check_alarm();
    });
  }

  // Runs gloo's code that concerns a peer; converts its exceptions to ours.
  template <class Body>
  void guarded(int rank, const Body& body) {
    const auto start = Clock::now();
    try {
      body(at(rank));
      watchdog_.watch(nullptr);
    } catch (const ::gloo::Exception& error) {
      watchdog_.watch(nullptr);
      if (Clock::now() - start >= membership_.timeout)
        membership_.time_out(call_, step_, rank, progress_.of_all());
      check_left(membership_, describe_step(call_, step_), rank);
      membership_.end_late(str(describe_step(call_, step_), ": rank ", membership_.me(),
                               " lost rank ", membership_.name_of(rank), ": ", error.what()));
    } catch (...) {
      watchdog_.watch(nullptr);
      throw;
    }
  }

  Membership membership_;
  StoreProgress progress_;
  GlooWatchdog watchdog_;
  std::vector<Peer> peers_;
  std::shared_ptr<::gloo::Context> context_;
  std::unique_ptr<Engine> engine_;
  Call call_;
  std::uint64_t step_ = 0;
  Tensor buffer_;
  Tensor slots_;         // received data to be added
  std::vector<In> ins_;  // of the current step
  std::vector<const std::byte*> views_;
};

}  // namespace

bool has_gloo() { return true; }

std::unique_ptr<Transport> make_gloo_transport(const Membership& membership) {
  return std::make_unique<GlooTransport>(membership);
}

}  // namespace ringlet::comm
