#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/core/threads/processors.h"

namespace ringlet::comm {
namespace {

/// This rank's connection; in rank 0, where no launcher keeps the store, the server, too.
class Session {
 public:
  Session(const Environment& environment, const GroupOptions& options) : timeout_(options.timeout) {
    const Token token = Token::from_environment();
    const std::string& host = environment.master_addr;
    if (environment.rank == 0 && !environment.store_in_launcher)
      server_ = serve_tcp_store({.host = host, .port = environment.port, .token = token});
    store_ = join_tcp_store({.host = host,
                             .port = environment.port,
                             .token = token,
                             .name = str("rank ", environment.rank),
                             .timeout = options.timeout,
                             .on_wait = [&](const std::string& why) {
                               if (options.on_note && environment.local_rank == 0)
                                 options.on_note(str("[group] rank ", environment.rank,
                                                     " waits for the store at ", host, ':',
                                                     environment.port, ": ", why));
                             }});
    record_joined(*store_, environment.rank);
  }

  /// Other ranks may still need the store.
  ~Session() {
    store_.reset();
    if (server_) server_->wait_for_goodbyes(timeout_);
  }

  TcpStore* store() const { return store_.get(); }

 private:
  Timeout timeout_;
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<TcpStore> store_;
};

void choose_device(const Environment& environment) {
  if (!has_backend(DeviceType::cuda)) return;
  const int count = backend(DeviceType::cuda).device_count();
  if (count == 0) return;
  Device::set_best({DeviceType::cuda, environment.gpu(count)});
}

/// The control group that limits this rank, and its processors: " BOOT GROUP 0 1 5 ".
std::string my_processors(const std::optional<CpuLimit>& limit) {
  std::string text = str(' ', boot_id(), ' ', limit ? limit->group : "-", ' ');
  for (const int cpu : affinity()) text += str(cpu, ' ');
  return text;
}

/// Ranks that may run on the same processors share them equally, however the launcher bound them.
/// So do ranks below one limit.
void share_processors(const Group& world) {
  const std::optional<CpuLimit> limit = cpu_limit();
  const std::vector<std::string> all = world.all_gather_bytes(my_processors(limit));
  if (environment_variable("RINGLET_NUM_THREADS")) return;
  const std::string host = str(' ', boot_id(), ' ');
  const auto users_of = [&](const std::string& what) {
    return static_cast<double>(std::count_if(all.begin(), all.end(), [&](const std::string& rank) {
      return rank.starts_with(host) && rank.find(what, host.size() - 1) != rank.npos;
    }));
  };
  double share = 0;
  for (const int cpu : affinity()) share += 1.0 / users_of(str(' ', cpu, ' '));
  if (limit) share = std::min(share, limit->processors / users_of(str(' ', limit->group, ' ')));
  set_threads_per_device(std::max(1, static_cast<int>(share + 1e-9)));
}

/// The port of the next world's store, once the launcher names it; nothing if the job ends.
std::optional<int> port_after(Store& ended) {
  constexpr std::chrono::seconds kMost{60};  // the launcher answers at once, unless it is stopped
  const auto deadline = std::chrono::steady_clock::now() + kMost;
  while (std::chrono::steady_clock::now() < deadline) {
    const std::int64_t port = ended.add(kPortOfNextWorld, 0);
    if (port > 0) return static_cast<int>(port);
    if (port < 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::nullopt;
}

std::vector<int> numbers(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<int>(words), {}};
}

/// The world that the launcher forms at the session's store; or, if a rank ends meanwhile, at the
/// store that follows.
std::optional<Group> formed(std::shared_ptr<Session> session, Environment environment,
                            const GroupOptions& options) {
  for (;;) {
    TcpStore& store = *session->store();
    try {
      const Timeout patience = options.timeout + environment.grace;
      const std::vector<int> ranks = numbers(store.get(kRanksOfWorld, patience));
      const auto mine = std::ranges::find(ranks, environment.rank);
      RINGLET_CHECK(mine != ranks.end(), "[group] rank ", environment.rank, " is left out");
      return Group(std::shared_ptr<Store>(session, &store), static_cast<int>(mine - ranks.begin()),
                   static_cast<int>(ranks.size()), options, "world", ranks);
    } catch (const Error&) {
      if (!store.raised()) throw;
    }
    const std::optional<int> port = port_after(store);
    if (!port) return std::nullopt;
    environment.port = *port;
    session = std::make_shared<Session>(environment, options);
  }
}

/// The world that this rank joins; the others keep their threads.
Group join_world(std::shared_ptr<Session> session, const Environment& environment,
                 const GroupOptions& options) {
  const std::optional<Group> world = formed(std::move(session), environment, options);
  RINGLET_CHECK(world, "[group] rank ", environment.rank, ": the job has ended before it joined");
  if (!environment_variable("RINGLET_NUM_THREADS") && !environment_variable(kPinned))
    set_threads_per_device(std::max(1, usable_processors() / world->size()));
  return *world;
}

}  // namespace

void record_joined(Store& store, int rank) {
  store.add(kRanksThatJoined, 1);  // before its name: the launcher reads the name, then the count
  if (store.add(str(kRanksThatJoined, ": ", rank), 1) > 1)
    fail_input("rank ", rank,
               " joined twice: each process needs a RANK of its own, and `ringlet run",
               " --nnodes` the same --nproc-per-node on every host");
}

bool has_joined(Store& store, int rank) {
  return store.add(str(kRanksThatJoined, ": ", rank), 0) > 0;
}

Group init_from_env(GroupOptions options) {
  const Environment environment = Environment::read();
  options.elastic = environment.elastic();
  if (environment.launched) choose_device(environment);
  if (environment.world_size == 1) return {};
  static std::atomic_flag called;
  RINGLET_CHECK(!called.test_and_set(),
                "[init_from_env] called again: the world is made once, pass its Group on");
  const auto session = std::make_shared<Session>(environment, options);
  if (environment.joins) return join_world(session, environment, options);
  Group world(std::shared_ptr<Store>(session, session->store()), environment.rank,
              environment.world_size, options);
  share_processors(world);
  return world;
}

std::optional<Group> regroup_from_env(const Group& world) {
  const GroupOptions& options = world.options();
  if (!options.elastic) return std::nullopt;
  const std::optional<int> port = port_after(world.store());
  if (!port) return std::nullopt;
  Environment environment = Environment::read();
  environment.port = *port;
  return formed(std::make_shared<Session>(environment, options), environment, options);
}

bool rank_waits(const Group& world) {
  return world.options().elastic && world.store().add(kPortOfNextWorld, 0) > 0;
}

void run_from_env(const std::function<void(const Group&)>& rank_main, GroupOptions options,
                  bool regroups) {
  Group world = init_from_env(options);
  for (;;) {
    try {
      return rank_main(world);
    } catch (const WorldGrows&) {
      const std::optional<Group> grown = regroups ? regroup_from_env(world) : std::nullopt;
      if (!grown) throw;
      world = *grown;
    } catch (const std::exception& error) {
      if (world.size() == 1) throw;
      const bool of_peer = world.store().raised();
      if (!of_peer) world.store().raise(of_rank(world.rank(), error.what()));
      std::optional<Group> left;
      if (of_peer && regroups) left = regroup_from_env(world);
      if (!left) throw;
      world = *left;
    }
  }
}

}  // namespace ringlet::comm
