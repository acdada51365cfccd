// A rank joins a group: its parameters, and the transports that they make.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "ringlet/comm/call.h"
#include "ringlet/comm/store.h"

namespace ringlet::comm {

class Socket;

/// Whether a rank takes part in no further collective of its group, and why. An exception or an
/// error may not have reached the alarm yet.
enum class Left : std::uint32_t { no, yes, by_exception, by_error };

/// "rank 1: WHAT"; WHAT alone if it begins with a rank, as the error of a peer does.
std::string of_rank(int rank, const std::string& what);

/// A rank's parameters for joining a group.
struct Membership {
  std::shared_ptr<Store> store;
  int rank;
  int size;
  Timeout timeout;
  std::string id;
  std::function<void(const std::string&)> on_note = {};  // may be empty
  /// The ranks as messages name them: those of the world. Empty: as they are.
  std::vector<int> names = {};
  /// Whether an exception ends the group on this rank, in all copies for one group. Its transports
  /// report this to the peers when they end. It is true until the group is complete.
  std::shared_ptr<std::atomic<bool>> unwinds = std::make_shared<std::atomic<bool>>(true);

  Left left() const { return *unwinds ? Left::by_exception : Left::yes; }
  int name_of(int of) const { return names.empty() ? of : names[static_cast<std::size_t>(of)]; }
  int me() const { return name_of(rank); }
  /// This rank's part of the group of some of these ranks.
  Membership subgroup(const std::vector<int>& ranks, const std::string& its_id) const;
  /// Calls on_note on one rank of the group, the first one with this topic.
  void note(const std::string& topic, const std::string& line) const;
  /// For kernels of one process that wait for each other: notes a setting that they need.
  void note_lazy_loading() const;
  std::string key(const std::string& what) const { return id + "/" + what; }
  /// The value of a key that another rank sets. Throws when the alarm is raised or after the
  /// timeout; the message says what it waited for.
  std::string get(const std::string& what, const std::string& meaning) const;
  /// This rank begins to make the group.
  void come() const;
  /// Whether `peer` has begun to; does not wait for it.
  bool has_come(int peer) const;
  /// Every rank's value, in rank order; `whose` distinguishes several in one group.
  std::vector<std::string> gather(const std::string& whose, const std::string& mine) const;
  /// Returns when all ranks have come to `point`.
  void barrier(const std::string& point, const std::string& meaning) const;
  /// Throws the cause if the alarm is raised.
  void check_alarm() const;
  /// Raises the alarm, and throws its first cause.
  [[noreturn]] void end(const std::string& cause) const;
  /// The same unless the alarm is raised within 0.5 s: the cause of a peer's end often arrives just
  /// after its connection is lost.
  [[noreturn]] void end_late(const std::string& cause) const;
  /// Ends the group because `peer` has left it; `where` is the beginning of the message.
  [[noreturn]] void end_left(const std::string& where, int peer, Left left) const;
  /// Ends the group unless the peer's call is this rank's.
  void compare(int peer, const Call& theirs, const Call& mine) const;
  /// ", which waits for rank 3", if the rank `name` has timed out, too, and so on along the chain.
  /// Waits 0.5 s first: ranks that wait for each other time out one shortly after another.
  std::string chain_from(int name) const;
  /// "rank 1 waited 5 s", the group's timeout.
  std::string waited() const;
  /// Ends the group because a peer did not come to a step in time.
  [[noreturn]] void time_out(const Call& call, std::uint64_t step, int peer,
                             const std::vector<Progress>& of_ranks) const;
};

/// This rank's TCP connection with each peer, by rank; its own entry is empty. Listens at
/// `address`, of this host, until all are made. Both sides of a connection prove, by HMAC-SHA256
/// over fresh numbers, that they know a secret in the group's store. Unauthenticated clients are
/// closed.
std::vector<Socket> connect_peers(const Membership& membership, const std::string& address);

std::unique_ptr<Transport> make_thread_transport(const Membership& membership);
std::unique_ptr<Transport> make_shm_transport(const Membership& membership);
std::unique_ptr<Transport> make_gloo_transport(const Membership& membership);
/// Whether this build has gloo, and that transport with it.
bool has_gloo();
/// The transport of tensors on GPUs. The ranks first compare their calls over `host`, the group's
/// other transport, of `host_kind`. Null in a build without NCCL.
std::unique_ptr<Transport> make_nccl_transport(const Membership& membership, Transport& host,
                                               TransportKind host_kind);
/// The reason in a build without NCCL; empty in one with it.
std::string why_no_nccl();
/// Error if there is no usable NCCL library.
void check_nccl();

/// Agrees with the other ranks on the transport of tensors on a CPU, and makes it. `kind` receives
/// the choice; nccl leaves the choice open.
std::unique_ptr<Transport> make_transport(TransportKind& kind, const Membership& membership);

}  // namespace ringlet::comm
