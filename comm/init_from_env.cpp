#include <algorithm>
#include <atomic>
#include <optional>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/cpu_limit.h"
#include "ringlet/core/threads/parallel.h"

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

}  // namespace

void record_joined(Store& store, int rank) {
  if (store.add(str(kRanksThatJoined, ": ", rank), 1) > 1)
    fail_input("rank ", rank,
               " joined twice: each process needs a RANK of its own, and `ringlet run",
               " --nnodes` the same --nproc-per-node on every host");
  store.add(kRanksThatJoined, 1);
}

bool has_joined(Store& store, int rank) {
  return store.add(str(kRanksThatJoined, ": ", rank), 0) > 0;
}

Group init_from_env(GroupOptions options) {
  const Environment environment = Environment::read();
  if (environment.launched) choose_device(environment);
  if (environment.world_size == 1) return {};
  static std::atomic_flag called;
  RINGLET_CHECK(!called.test_and_set(),
                "[init_from_env] called again: the world is made once, pass its Group on");
  const auto session = std::make_shared<Session>(environment, options);
  Group world(std::shared_ptr<Store>(session, session->store()), environment.rank,
              environment.world_size, options);
  share_processors(world);
  return world;
}

void run_from_env(const std::function<void(const Group&)>& rank_main, GroupOptions options) {
  const Group world = init_from_env(options);
  try {
    rank_main(world);
  } catch (const std::exception& error) {
    if (world.size() > 1 && !world.store().raised())
      world.store().raise(of_rank(world.rank(), error.what()));
    throw;
  }
}

}  // namespace ringlet::comm
