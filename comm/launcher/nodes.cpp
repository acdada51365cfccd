#include "ringlet/comm/launcher/nodes.h"

#include <ostream>

#include "ringlet/comm/launcher/signals.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

/// Longest wait for the other nodes' launchers.
constexpr Timeout kJoin = std::chrono::minutes(10);
/// Time for the other nodes to fetch the last value of this node's launcher.
constexpr auto kLinger = std::chrono::seconds(10);

/// Whether `host` is this one.
bool is_here(const std::string& host) {
  try {
    listen_at(host, 0);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

Nodes::Nodes(const LauncherOptions& options, std::ostream& err)
    : options_(options),
      err_(err),
      token_(Token::from_environment()),
      node_rank_(options.node_rank.value_or(0)),
      port_(options.master_port) {
  if (options.nnodes == 1 && !is_here(options.master_addr))
    fail_input("the master address ", options.master_addr,
               ": expected one of this host, the only node (--nnodes 1)");
  token_is_new_ = token_.empty() && options.nnodes == 1;
  if (token_is_new_) token_ = Token::random();
  open_server();
  take_number();
  agree();
}

Nodes::~Nodes() {
  store_.reset();
  if (server_) server_->wait_for_goodbyes(kLinger);
}

void Nodes::open_server() {
  const bool must_keep_it = node_rank_ == 0 && (options_.nnodes == 1 || options_.node_rank);
  const bool may_keep_it = must_keep_it || (!options_.node_rank && is_here(options_.master_addr));
  if (may_keep_it) try {
      server_ = serve_tcp_store({.host = options_.master_addr, .port = port_, .token = token_});
      port_ = server_->port();
    } catch (const InputError&) {
      if (must_keep_it) throw;  // otherwise another launcher of this host was first
    }
}

std::unique_ptr<TcpStore> Nodes::join_store(const std::string& scope,
                                            const std::string& name) const {
  const std::string server = "the launcher of node 0";
  return join_tcp_store({.host = options_.master_addr,
                         .port = port_,
                         .token = token_,
                         .scope = scope,
                         .name = name,
                         .server = server,
                         .timeout = kJoin,
                         .silence = server_ ? Timeout::zero() : options_.node_timeout,
                         .on_wait = [&](const std::string& why) {
                           err_ << "ringlet: waits for " << server << " at " << options_.master_addr
                                << ':' << port_ << ": " << why << std::endl;
                         }});
}

void Nodes::take_number() {
  bool taken = false;
  {  // A refused launcher closes this store before it throws: otherwise the job would end.
    const auto store = join_store("launchers", "a launcher");
    if (!options_.node_rank && !server_) node_rank_ = static_cast<int>(store->add("nodes", 1));
    taken = node_rank_ < options_.nnodes && store->add(str("node ", node_rank_), 1) > 1;
    // A name for the peers' errors. Joined before the first store closes: the server forgets the
    // numbers when no client is left.
    if (node_rank_ < options_.nnodes && !taken) store_ = join_store("launchers", this_launcher());
  }
  if (node_rank_ >= options_.nnodes) fail_input("--nnodes ", options_.nnodes, ": this is one more");
  if (taken) fail_input("--node-rank ", node_rank_, ": another launcher has it");
}

void Nodes::agree() {
  const std::string job =
      str("--nnodes ", options_.nnodes, " --max-restarts ", options_.max_restarts);
  store_->set(str("options/", node_rank_), job);
  store_->set(str("ranks/", node_rank_), std::to_string(options_.nproc_per_node));
  const std::string first = await("options/0", 0);
  if (job != first) fail_input(job, ": node 0 has ", first);
  for (int node = 0; node < options_.nnodes; ++node) {
    if (node == node_rank_) first_rank_ = world_size_;
    world_size_ += std::stoi(await(str("ranks/", node), node));
  }
}

std::string Nodes::await(const std::string& key, int node) {
  try {
    return store_->get(key, kPatience);
  } catch (const Error&) {
    if (store_->raised()) throw;
  }
  err_ << "ringlet: waits for the launcher of node " << node << std::endl;
  return store_->get(key, kJoin);
}

std::unique_ptr<TcpStore> Nodes::join_attempt(int attempt) const {
  return join_store(str("attempt ", attempt), this_launcher());
}

std::string Nodes::this_launcher() const { return str("the launcher of node ", node_rank_); }

bool Nodes::all_at(const std::string& point) {
  if (store_->raised()) fail(store_->cause());
  return store_->add(point, 0) >= options_.nnodes;
}

void Nodes::stop(int signal) {
  store_->raise(str(this_launcher(), " was stopped by ", signal_name(signal)));
}

}  // namespace ringlet::comm
