// Connects the launchers of a job's nodes and keeps them in step.
#pragma once

#include <chrono>
#include <iosfwd>
#include <memory>
#include <string>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/comm/stores/tcp_client.h"
#include "ringlet/comm/stores/tcp_server.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

class Nodes {
 public:
  /// Returns once all launchers are there. InputError where their options do not agree.
  /// Prints to `err` which node it waits for.
  Nodes(const LauncherOptions& options, std::ostream& err);
  ~Nodes();

  int node_rank() const { return node_rank_; }
  int first_rank() const { return first_rank_; }  // of this node
  int world_size() const { return world_size_; }
  int port() const { return port_; }
  /// Empty if a variable gives the ranks their token already.
  std::string new_token() const { return token_is_new_ ? token_.secret() : ""; }

  /// The launchers' store. Its alarm reports a launcher that has died or was stopped.
  TcpStore& store() { return *store_; }
  /// This node's connection to the ranks' alarm in one attempt.
  std::unique_ptr<TcpStore> join_attempt(int attempt) const;

  /// Records that this node has come to `point`; all_at() is true once every node has. Error when a
  /// launcher has died.
  void arrive_at(const std::string& point) { store_->add(point, 1); }
  bool all_at(const std::string& point);
  /// Ends the job on all nodes: a signal has stopped this one's launcher.
  void stop(int signal);

 private:
  void open_server();
  std::unique_ptr<TcpStore> join_store(const std::string& scope, const std::string& name) const;
  /// The name of this launcher in the stores and in errors.
  std::string this_launcher() const;
  void take_number();
  void agree();
  /// A value that another node's launcher sets.
  std::string await(const std::string& key, int node);

  const LauncherOptions& options_;
  std::ostream& err_;
  Token token_;
  bool token_is_new_ = false;
  int node_rank_;
  int first_rank_ = 0;
  int world_size_ = 0;
  int port_;
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<TcpStore> store_;
};

/// How often a launcher checks the alarm and the other nodes.
inline constexpr int kLauncherTick = 50;  // ms
/// Nodes end an attempt within their grace plus this time of each other.
inline constexpr auto kInStep = std::chrono::seconds(30);

struct Job {
  const LauncherOptions& options;
  Nodes nodes;
  Signals signals;
  std::ostream& out;
  std::ostream& err;
};

}  // namespace ringlet::comm
