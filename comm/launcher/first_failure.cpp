#include "ringlet/comm/launcher/first_failure.h"

#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>

#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

/// "rank 12 (pid …" -> 12
std::optional<int> rank_named_first(const std::string& text) {
  constexpr std::string_view kRank = "rank ";
  if (text.rfind(kRank, 0) != 0) return std::nullopt;
  return std::atoi(text.c_str() + kRank.size());
}

int publish_exit_code(const LocalRank& root, const std::string& key, Nodes& nodes) {
  const int code = *root.exit_code != 0 ? *root.exit_code : 1;
  try {
    nodes.set(key, std::to_string(code));
  } catch (const Error&) {  // the store has ended, and with it the nodes that would ask
  }
  return code;
}

int fetch_exit_code(const std::string& key, Nodes& nodes, Timeout patience) {
  try {
    return std::stoi(nodes.get(key, patience));
  } catch (const Error&) {  // its launcher has ended as well
    return 1;
  }
}

/// Ranks that had exited with 0: their peers may have failed because these were missing.
std::string those_done(const FailedAttempt& failed) {
  std::string list;
  for (const int rank : failed.done)
    if (rank != failed.root) list += str(list.empty() ? "" : ", ", rank);
  return list.empty() ? "" : str("; had exited with code 0: rank ", list);
}

/// Whether `root` refused its input and the screen shows why.
bool is_bad_input(const LocalRank* root) {
  return root != nullptr && root->exit_code == 2 && !root->err.error().empty();
}

void print_tail(const LocalRank& root, std::ostream& err) {
  const auto& lines = root.err.tail().empty() ? root.out.tail() : root.err.tail();
  if (lines.empty()) return;
  err << "ringlet: the last lines of rank " << root.rank << ":\n";
  for (const std::string& line : lines) err << "  " << line << '\n';
}

}  // namespace

std::optional<int> blamed_rank(const TcpStore& alarm) {
  const std::optional<int> culprit = rank_named_first(alarm.culprit());
  return culprit ? culprit : rank_named_first(alarm.cause());
}

int report_first_failure(const FailedAttempt& failed, Nodes& nodes, std::ostream& err) {
  const std::optional<int> root = failed.root;
  const LocalRank* here = failed.ranks.find(root);
  const std::string key = str("exit/", failed.attempt);
  const int code = here != nullptr ? publish_exit_code(*here, key, nodes)
                   : root          ? fetch_exit_code(key, nodes, failed.patience)
                                   : 1;
  const std::string cause = failed.alarm.cause();
  const bool bad_input = is_bad_input(here);
  const std::string refusal = bad_input ? here->err.error() : "";
  failed.ranks.show_errors([&](const LocalRank& rank) {
    const std::string& error = rank.err.error();
    return bad_input && &rank != here &&
           (error == refusal || error.starts_with("ringlet: " + cause));
  });
  const bool named = !root || rank_named_first(cause) == root;
  err << "ringlet: first to fail: " << (named ? "" : str("rank ", *root, ": ")) << cause;
  if (here != nullptr && rank_named_first(failed.alarm.culprit()))
    err << "; it " << here->process.how_it_ended();
  err << those_done(failed);
  err << '\n';
  if (here != nullptr && !bad_input) print_tail(*here, err);
  err.flush();
  return code;
}

}  // namespace ringlet::comm
