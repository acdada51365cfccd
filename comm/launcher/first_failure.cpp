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

/// The rank that the raised alarm blames; nothing if it blames no rank.
std::optional<int> blamed_rank(const TcpStore& alarm) {
  const std::optional<int> culprit = rank_named_first(alarm.culprit());
  return culprit ? culprit : rank_named_first(alarm.cause());
}

/// The exit code of the first failed rank. Its node, with `here`, stores it for the other nodes.
int agree_on_code(const FailedAttempt& failed, const LocalRank* here, TcpStore& launchers) {
  const std::string key = str("exit/", failed.attempt);
  const int code = here != nullptr && *here->exit_code != 0 ? *here->exit_code : 1;
  try {
    if (here == nullptr) return std::stoi(launchers.get(key, failed.patience));
    launchers.set(key, std::to_string(code));
  } catch (const Error&) {  // the store has ended, or the launcher that had the code
  }
  return code;
}

/// Ranks that had exited with 0: their peers may have failed because these were missing.
std::string those_done(const std::vector<int>& done, std::optional<int> root) {
  std::string list;
  for (const int rank : done)
    if (rank != root) list += str(list.empty() ? "" : ", ", rank);
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

int report_first_failure(const FailedAttempt& failed, TcpStore& launchers, std::ostream& err) {
  const std::optional<int> root = blamed_rank(failed.alarm);
  const LocalRank* here = failed.ranks.find(root);
  const int code = root ? agree_on_code(failed, here, launchers) : 1;
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
  err << those_done(failed.done, root) << '\n';
  if (here != nullptr && !bad_input) print_tail(*here, err);
  err.flush();
  return code;
}

}  // namespace ringlet::comm
