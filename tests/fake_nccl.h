// NCCL on the device of delayed_device.h. A group is work of its stream, ordered after earlier
// work. It lasts until all its sends and receives have met their peers', and moves their bytes some
// time in between. Like the real one it accepts a group immediately and enqueues it on the stream
// later. Until then it accepts no other call of the communicator. It waits endlessly for absent
// peers, and does not abort while graphs with its groups exist.
#pragma once

#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "delayed_device.h"
#include "device.h"
#include "ringlet/comm/transports/nccl_communicator.h"
#include "ringlet/core/ops/combine.h"

namespace ringlet {

class FakeNccl {
 public:
  /// A send or a receive; for other calls `peer` is -1.
  struct Asked {
    std::string what;
    int peer;
    std::size_t nbytes;
    bool operator==(const Asked&) const = default;
  };
  using Group = std::vector<Asked>;

  explicit FakeNccl(DelayedDevice& device) : device_(device) {
    installed = this;
    has_fake_nccl = true;
    functions().patience = std::chrono::seconds(10);
    comm::set_nccl(&functions());
  }
  ~FakeNccl() {
    ends_ = true;
    while (ending_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm::set_nccl(nullptr);
    has_fake_nccl = false;
    installed = nullptr;
  }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  /// The groups that each rank has enqueued so far, in order.
  std::vector<Group> groups(int rank) {
    const std::lock_guard lock(mutex_);
    return groups_[rank];
  }
  /// Calls that NCCL forbids: of a communicator that is destroyed, or busy.
  int misused() const { return misused_; }
  int made() const { return made_; }
  int aborted() const { return aborted_; }
  int destroyed() const { return destroyed_; }

  // Faults, from the call on.
  /// Requests of a communicator never complete.
  void never_finish() { stalled_ = true; }
  void refuse_to_make() { refuses_ = true; }
  void refuse_groups() { refuses_groups_ = true; }
  /// Aborting or destroying returns when this object is destroyed, or after 20 s.
  void hold_up_ends(std::chrono::milliseconds patience) {
    ends_ = false;
    functions().patience = patience;
  }
  /// Data sent by the rank is lost.
  void lose_sends_of(int rank) { lost_.insert(rank); }
  void fail_on_device(int rank) {
    const std::lock_guard lock(mutex_);
    for (const auto& communicator : communicators_)
      if (communicator->rank == rank) communicator->error = ncclRemoteError;
  }

 private:
  struct Call {
    std::string what;
    const void* from;
    void* to;
    std::size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer;  // or the root
  };
  /// A call that is enqueued on its rank's stream.
  struct Enqueued {
    Call call;
    streams::Point arrived;
    streams::Point passed;  // held until the calls of all concerned ranks are enqueued
  };
  struct World {
    int size = 0;
    int joined = 0;
    std::map<std::pair<int, int>, std::deque<Enqueued>> sends, receives;
    std::map<int, std::map<int, Enqueued>> joints;  // collectives by number, then by rank
  };
  struct Communicator {
    Communicator(World* world, int rank) : world(world), rank(rank) {}
    World* world;
    int rank;
    int polls = 0;                 // until the request has been taken
    std::function<void()> taking;  // enqueues it on the device
    ncclResult_t error = ncclSuccess;
    std::vector<streams::Point> held;
    int joints = 0;
    bool gone = false;
    std::shared_ptr<const int> graphs = std::make_shared<int>();  // also owned by its graphs
  };

  inline static FakeNccl* installed = nullptr;
  static Communicator& of(ncclComm_t handle) { return *reinterpret_cast<Communicator*>(handle); }

  // ---- groups, of this thread ---------------------------------------------------------------

  struct Open {
    Communicator* communicator = nullptr;
    void* stream = nullptr;
    std::vector<Call> calls;
  };
  static Open& open() {
    thread_local Open group;
    return group;
  }
  static ncclResult_t ask(Call call, ncclComm_t handle, cudaStream_t stream) {
    Open& group = open();
    group.communicator = &of(handle);
    group.stream = stream;
    group.calls.push_back(std::move(call));
    return ncclSuccess;
  }
  static ncclResult_t start_group() {
    if (installed->refuses_groups_) return ncclInvalidUsage;
    open() = {};
    return ncclSuccess;
  }
  static ncclResult_t end_group() {
    FakeNccl& self = *installed;
    const std::lock_guard lock(self.mutex_);
    const Open group = std::exchange(open(), {});
    if (!group.communicator) return ncclSuccess;
    if (group.communicator->gone || group.communicator->polls > 0) return self.misuse();
    group.communicator->polls = 2;
    group.communicator->taking = [&self, group] { self.give(group); };
    return ncclInProgress;
  }

  streams::Scheduler& scheduler() { return device_.scheduler(); }

  void give(const Open& group) {
    const auto enqueue_calls = [this, group,
                                graph = group.communicator->graphs](streams::Stream& stream) {
      if (group.communicator->gone) return;  // kernels of a replay see it immediately
      enqueue(*group.communicator, group.calls, stream);
    };
    scheduler().call(*static_cast<streams::Stream*>(group.stream), enqueue_calls);
  }

  void enqueue(Communicator& communicator, const std::vector<Call>& calls,
               streams::Stream& stream) {
    const streams::Point arrived = scheduler().enqueue(stream);
    Group& asked = groups_[communicator.rank].emplace_back();
    for (const Call& call : calls) {
      const bool to_peer = call.what == "send" || call.what == "receive";
      asked.push_back({call.what, to_peer ? call.peer : -1, call.count * size_of(call.type)});
      communicator.held.push_back(scheduler().hold(stream));
      const Enqueued own{call, arrived, communicator.held.back()};
      if (to_peer)
        meet(communicator, own);
      else
        join(communicator, own);
    }
  }

  void meet(const Communicator& communicator, const Enqueued& own) {
    World& world = *communicator.world;
    const bool sends = own.call.what == "send";
    if (sends && lost_.contains(communicator.rank)) return;
    const int peer = own.call.peer;
    const std::pair way =
        sends ? std::pair(communicator.rank, peer) : std::pair(peer, communicator.rank);
    std::deque<Enqueued>& theirs = (sends ? world.receives : world.sends)[way];
    if (theirs.empty()) return (sends ? world.sends : world.receives)[way].push_back(own);
    const Enqueued other = theirs.front();
    theirs.pop_front();
    const Call &from = (sends ? own : other).call, &to = (sends ? other : own).call;
    RINGLET_CHECK_EQ(from.count, to.count, "[fake nccl] bytes from rank ", way.first, " to ",
                     way.second);
    complete({own, other}, [=] { std::memcpy(to.to, from.from, from.count); });
  }

  void join(Communicator& communicator, const Enqueued& own) {
    World& world = *communicator.world;
    const auto joint = world.joints.try_emplace(communicator.joints++).first;
    joint->second.emplace(communicator.rank, own);
    if (static_cast<int>(joint->second.size()) < world.size) return;
    std::vector<Enqueued> all;
    std::vector<Call> calls;
    for (const auto& [rank, each] : joint->second) {
      all.push_back(each);
      calls.push_back(each.call);
    }
    world.joints.erase(joint);
    complete(all, [calls] { run(calls); });
  }

  /// `move` runs once, when all have arrived and before any has passed.
  void complete(const std::vector<Enqueued>& all, const std::function<void()>& move) {
    std::vector<streams::Point> arrived;
    for (const Enqueued& each : all) {
      if (!each.passed->held) return;  // aborted: its peers wait for their own abort
      arrived.push_back(each.arrived);
    }
    const auto once = [move, moved = std::make_shared<bool>(false)] {
      if (!std::exchange(*moved, true)) move();
    };
    for (const Enqueued& each : all)
      scheduler().let_go(*each.passed, device_.computing(once), arrived);
  }

  // ---- the results of collectives -----------------------------------------------------------

  static DType dtype_of(ncclDataType_t type) {
    switch (type) {
      case ncclFloat32:
        return DType::f32;
      case ncclFloat64:
        return DType::f64;
      case ncclBfloat16:
        return DType::bf16;
      case ncclFloat16:
        return DType::f16;
      case ncclInt32:
        return DType::i32;
      case ncclInt64:
        return DType::i64;
      default:
        return DType::u8;
    }
  }
  static std::size_t size_of(ncclDataType_t type) { return itemsize(dtype_of(type)); }

  static void run(const std::vector<Call>& calls) {
    const Call& first = calls[0];
    const std::size_t nbytes = first.count * size_of(first.type), ranks = calls.size();
    const auto in = [&](std::size_t rank, std::size_t piece) {
      return static_cast<const std::byte*>(calls[rank].from) + piece * nbytes;
    };
    for (const Call& call : calls)
      RINGLET_CHECK(call.what == first.what && call.count == first.count, "[fake nccl] ", call.what,
                    " of ", call.count, " meets ", first.what, " of ", first.count);
    std::vector<std::vector<std::byte>> results;  // of each piece
    const bool reduces = first.what != "all_gather" && first.what != "broadcast";
    const std::size_t pieces =
        first.what == "reduce_scatter" || first.what == "all_gather" ? ranks : 1;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      std::vector<std::byte>& result = results.emplace_back(nbytes);
      if (!reduces) {
        const std::size_t owner =
            first.what == "broadcast" ? static_cast<std::size_t>(first.peer) : piece;
        std::memcpy(result.data(), in(owner, 0), nbytes);
        continue;
      }
      std::vector<const void*> sources;
      for (std::size_t rank = 0; rank < ranks; ++rank) sources.push_back(in(rank, piece));
      combine_kernel(
          {result.data(), sources.data(), static_cast<int>(ranks),
           static_cast<std::int64_t>(first.count),
           first.op == ncclMax ? CombineOp::max : CombineOp::sum,
           first.op == ncclAvg ? 1.0 / static_cast<double>(ranks) : 1.0, dtype_of(first.type)},
          Device{});
    }
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (std::size_t piece = 0; piece < pieces; ++piece) {
        auto* out = static_cast<std::byte*>(calls[rank].to);
        if (first.what == "reduce_scatter" && piece != rank) continue;
        if (first.what == "all_gather") out += piece * nbytes;
        std::memcpy(out, results[piece].data(), nbytes);
      }
  }

  // ---- communicators ------------------------------------------------------------------------

  ncclResult_t misuse() {
    ++misused_;
    return ncclInvalidUsage;
  }

  static ncclResult_t make_id(ncclUniqueId* id) {
    FakeNccl& self = *installed;
    const std::lock_guard lock(self.mutex_);
    std::memset(id, 0xfe, sizeof(*id));
    std::memcpy(id, &++self.ids_, sizeof(self.ids_));
    return ncclSuccess;
  }
  static ncclResult_t make(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                           ncclConfig_t* config) {
    FakeNccl& self = *installed;
    const std::lock_guard lock(self.mutex_);
    if (config->blocking != 0 || config->maxCTAs != 24) return self.misuse();
    if (self.refuses_) return ncclInvalidUsage;
    World& world = self.worlds_[std::string(id.internal, sizeof(id.internal))];
    world.size = size;
    ++world.joined;
    ++self.made_;
    self.communicators_.push_back(std::make_unique<Communicator>(&world, rank));
    *handle = reinterpret_cast<ncclComm_t>(self.communicators_.back().get());
    return ncclInProgress;
  }
  static ncclResult_t poll(ncclComm_t handle, ncclResult_t* state) {
    FakeNccl& self = *installed;
    const std::lock_guard lock(self.mutex_);
    Communicator& communicator = of(handle);
    if (communicator.gone) return self.misuse();
    *state = communicator.error;
    if (communicator.error != ncclSuccess) return ncclSuccess;
    if (self.stalled_ || communicator.world->joined < communicator.world->size) {
      *state = ncclInProgress;
    } else if (communicator.polls > 0 && --communicator.polls > 0) {
      *state = ncclInProgress;
    } else if (const auto taking = std::exchange(communicator.taking, {})) {
      taking();
    }
    return ncclSuccess;
  }
  static ncclResult_t abort(ncclComm_t handle) {
    FakeNccl& self = *installed;
    const Ending here(self);
    Communicator& communicator = of(handle);
    ++self.aborted_;
    {
      const std::lock_guard lock(self.mutex_);
      if (std::exchange(communicator.gone, true)) return self.misuse();
      for (const streams::Point& point : communicator.held) self.scheduler().let_go(*point);
    }
    while (communicator.graphs.use_count() > 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    self.hold_up();
    return ncclSuccess;
  }
  static ncclResult_t finalize(ncclComm_t handle) {
    FakeNccl& self = *installed;
    const std::lock_guard lock(self.mutex_);
    if (of(handle).gone || of(handle).polls > 0) return self.misuse();
    of(handle).polls = 2;
    return ncclInProgress;
  }
  static ncclResult_t destroy(ncclComm_t handle) {
    FakeNccl& self = *installed;
    const Ending here(self);
    {
      const std::lock_guard lock(self.mutex_);
      ++self.destroyed_;
      if (std::exchange(of(handle).gone, true)) return self.misuse();
    }
    self.hold_up();
    return ncclSuccess;
  }
  /// During its lifetime, a call is ending a communicator.
  struct Ending {
    explicit Ending(FakeNccl& self) : self(self) { ++self.ending_; }
    ~Ending() { --self.ending_; }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    FakeNccl& self;
  };
  void hold_up() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!ends_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  static comm::NcclFunctions& functions() {
    static comm::NcclFunctions all = [] {
      comm::NcclFunctions f{};
      f.ncclGetUniqueId = make_id;
      f.ncclCommInitRankConfig = make;
      f.ncclCommGetAsyncError = poll;
      f.ncclCommAbort = abort;
      f.ncclCommFinalize = finalize;
      f.ncclCommDestroy = destroy;
      f.ncclGetErrorString = [](ncclResult_t result) {
        return result == ncclRemoteError ? "remote process exited" : "invalid usage";
      };
      f.ncclGetLastError = [](ncclComm_t) { return ""; };
      f.ncclGroupStart = start_group;
      f.ncclGroupEnd = end_group;
      f.ncclSend = [](const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, cudaStream_t stream) {
        return ask({"send", from, nullptr, count, type, ncclSum, peer}, handle, stream);
      };
      f.ncclRecv = [](void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
        return ask({"receive", nullptr, to, count, type, ncclSum, peer}, handle, stream);
      };
      f.ncclAllReduce = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
        return ask({"all_reduce", from, to, count, type, op, 0}, handle, stream);
      };
      f.ncclReduceScatter = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
        return ask({"reduce_scatter", from, to, count, type, op, 0}, handle, stream);
      };
      f.ncclAllGather = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t handle, cudaStream_t stream) {
        return ask({"all_gather", from, to, count, type, ncclSum, 0}, handle, stream);
      };
      f.ncclBroadcast = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t handle, cudaStream_t stream) {
        return ask({"broadcast", from, to, count, type, ncclSum, root}, handle, stream);
      };
      return f;
    }();
    return all;
  }

  DelayedDevice& device_;
  std::recursive_mutex& mutex_ = scheduler().mutex();
  std::uint64_t ids_ = 0;
  std::map<std::string, World> worlds_;
  std::deque<std::unique_ptr<Communicator>> communicators_;  // including destroyed ones
  std::map<int, std::vector<Group>> groups_;
  std::set<int> lost_;
  std::atomic<bool> stalled_{false};
  std::atomic<bool> refuses_{false}, refuses_groups_{false}, ends_{true};
  std::atomic<int> ending_{0};
  std::atomic<int> misused_{0}, made_{0}, aborted_{0}, destroyed_{0};
};

}  // namespace ringlet
