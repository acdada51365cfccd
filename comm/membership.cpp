#include "ringlet/comm/membership.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank waits for a peer, or for a store (tcp_protocol.cpp), without a word.
constexpr std::chrono::seconds kPatience{5};
// Ranks that wait for each other reach their timeouts within this time.
constexpr std::chrono::milliseconds kTimeoutSpread{500};

std::string link_target(const char* path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path, target, sizeof(target));
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : "";
}

// Processes with the same answer can read each other's memory. They share one boot of one kernel,
// are not separated by containers, and are one node for the launcher, which may simulate two.
std::string host() {
  return str(boot_id(), link_target("/proc/self/ns/pid"), link_target("/proc/self/ns/net"), "node",
             environment_variable("GROUP_RANK").value_or(""));
}

// The most local transport that all ranks can use.
TransportKind best(const Membership& membership) {
  const std::string here = host(), process = std::to_string(getpid());
  TransportKind kind = TransportKind::thread;
  for (const std::string& place : membership.gather("", here + " " + process)) {
    std::istringstream words(place);
    std::string its_host, its_process;
    words >> its_host >> its_process;
    if (its_host != here) return TransportKind::gloo;
    if (its_process != process) kind = TransportKind::shm;
  }
  return kind;
}

}  // namespace

std::string of_rank(int rank, const std::string& what) {
  int other = 0, end = 0;
  const bool named = std::sscanf(what.c_str(), "rank %d:%n", &other, &end) == 1 && end > 0;
  return named ? what : str("rank ", rank, ": ", what);
}

Membership Membership::subgroup(const std::vector<int>& ranks, const std::string& its_id) const {
  Membership part = *this;
  part.id = id + "/" + its_id;
  part.rank = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  part.size = static_cast<int>(ranks.size());
  part.unwinds = std::make_shared<std::atomic<bool>>(true);
  part.names.clear();
  for (const int one : ranks) part.names.push_back(name_of(one));
  return part;
}

void Membership::note(const std::string& topic, const std::string& line) const {
  if (store->add(key("noted " + topic), 1) == 1 && on_note) on_note(line);
}

// CUDA loads a kernel at its first launch, and the load may wait for running kernels. With ranks in
// one process it may wait for a collective that needs the launch of this same rank. Ranks in
// separate processes wait only for their own GPU, and their peers complete its collective.
void Membership::note_lazy_loading() const {
  if (environment_variable("CUDA_MODULE_LOADING").value_or("") != "EAGER")
    note("loading", str("[group] ", id,
                        ": ranks in one process may wait for each other while CUDA loads a kernel: "
                        "set CUDA_MODULE_LOADING=EAGER before the program starts"));
}

std::string Membership::get(const std::string& what, const std::string& meaning) const {
  const auto start = Clock::now(), deadline = start + timeout;
  bool noted = false;
  while (true) {
    const auto asked = Clock::now();
    constexpr Timeout slice{100};
    try {
      return store->get(key(what), slice);
    } catch (const Error& error) {
      if (store->raised()) fail(store->cause(), "; rank ", me(), " was making the group ", id);
      if (Clock::now() >= deadline)
        fail("[group] ", id, ": ", waited(), " for ", meaning,
             size == 2 ? chain_from(name_of(1 - rank)) : "");
      if (Clock::now() - asked < slice) throw;  // it failed for another reason
      if (Clock::now() >= start + kPatience && !std::exchange(noted, true))
        note("waiting for " + meaning,
             str("[group] ", id, ": rank ", me(), " waits for ", meaning));
    }
  }
}

std::vector<std::string> Membership::gather(const std::string& whose,
                                            const std::string& mine) const {
  const auto name = [&](int of) { return str(whose, "rank ", name_of(of)); };
  store->set(key(name(rank)), mine);
  std::vector<std::string> all;
  for (int of = 0; of < size; ++of) all.push_back(get(name(of), name(of)));
  return all;
}

void Membership::come() const { store->add(key(str("came ", me())), 1); }
bool Membership::has_come(int peer) const {
  return store->add(key(str("came ", name_of(peer))), 0) > 0;
}

void Membership::barrier(const std::string& point, const std::string& meaning) const {
  if (store->add(key(point), 1) == size) store->set(key("all " + point), "yes");
  get("all " + point, meaning);
}

void Membership::check_alarm() const {
  if (store->raised()) throw Error(store->cause());
}

void Membership::end(const std::string& cause) const {
  store->raise(cause);
  throw Error(store->cause());
}

void Membership::end_late(const std::string& cause) const {
  // A peer that timed out closes its connections, and raises the alarm after its chain_from(). The
  // report of a peer that was killed takes as long.
  const auto patience = Clock::now() + 2 * kTimeoutSpread;
  while (!store->raised() && Clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  end(cause);
}

void Membership::end_left(const std::string& where, int peer, Left left) const {
  const std::string cause = describe_left(where, me(), name_of(peer));
  if (left == Left::yes) end(cause);
  end_late(cause + (left == Left::by_exception ? " by an exception" : " after an error"));
}

void Membership::compare(int peer, const Call& theirs, const Call& mine) const {
  if (theirs != mine) end(describe_mismatch(name_of(peer), theirs, me(), mine));
}

std::string Membership::waited() const {
  return str("rank ", me(), " waited ", seconds_of(timeout), " s");
}

std::string Membership::chain_from(int name) const {
  const auto key = [](int rank) { return str("rank ", rank, " waits for"); };
  std::string chain;
  try {
    store->set(key(me()), std::to_string(name));
    std::this_thread::sleep_for(kTimeoutSpread);
    for (std::set<int> seen{me()}; seen.insert(name).second;) {
      name = std::stoi(store->get(key(name), Timeout(100)));
      chain += str(", which waits for rank ", name);
    }
  } catch (const Error&) {  // the last rank of the chain has not timed out
  }
  return chain;
}

void Membership::time_out(const Call& call, std::uint64_t step, int peer,
                          const std::vector<Progress>& of_ranks) const {
  end(str(describe_step(call, step), ": ", waited(), " for rank ", name_of(peer),
          chain_from(name_of(peer)), presence(call.sequence, of_ranks, names)));
}

std::unique_ptr<Transport> make_transport(TransportKind& kind, const Membership& membership) {
  const TransportKind possible = best(membership);
  if (kind == TransportKind::automatic || kind == TransportKind::nccl) kind = possible;
  if (kind < possible)
    fail_input("[group] the transport ", name(kind), " is for ranks of one ",
               kind == TransportKind::thread ? "process" : "host", ", which these are not");
  switch (kind) {
    case TransportKind::thread:
      return make_thread_transport(membership);
    case TransportKind::shm:
      return make_shm_transport(membership);
    case TransportKind::gloo:
      return make_gloo_transport(membership);
    default:
      fail("[group] ", name(kind), " is no transport of tensors on a CPU");
  }
}

}  // namespace ringlet::comm
