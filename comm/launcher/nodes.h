// Connects the launchers of a job's nodes and keeps them in step.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/stores/tcp_client.h"
#include "ringlet/comm/stores/tcp_server.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

class Nodes {
 public:
  /// Returns once all launchers are there. InputError where their options do not agree.
  explicit Nodes(const LauncherOptions& options);
  ~Nodes();

  int node_rank() const { return node_rank_; }
  int first_rank() const { return first_rank_; }  // of this node
  int world_size() const { return world_size_; }
  int port() const { return port_; }
  /// Ranks need it in addition to torchrun's variables.
  const Token& token() const { return token_; }
  bool token_is_new() const { return token_is_new_; }  // no variable gives it to the ranks yet

  /// This node's connection to the ranks' alarm in one attempt.
  std::unique_ptr<TcpStore> join_attempt(int attempt) const;

  /// Records that this node has come to `point`; all_at() is true once every node has. Error when a
  /// launcher has died.
  void arrive_at(const std::string& point);
  bool all_at(const std::string& point);
  /// Whether a launcher has died or was stopped, and how.
  bool broken() const { return store_->raised(); }
  std::string cause() const { return store_->cause(); }
  void stop(const std::string& cause) { store_->raise(cause); }
  /// A value that one node stores and the other nodes request.
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key, Timeout timeout);

 private:
  void open_store();
  std::unique_ptr<TcpStore> join_store(const std::string& scope, const std::string& name) const;
  /// The name of this launcher in the stores and in errors.
  std::string this_launcher() const;
  void number_nodes();
  void agree();

  const LauncherOptions& options_;
  Token token_;
  bool token_is_new_ = false;
  int node_rank_ = 0;
  int first_rank_ = 0;
  int world_size_ = 0;
  int port_ = 0;
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<TcpStore> store_;
};

}  // namespace ringlet::comm
