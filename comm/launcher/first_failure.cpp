#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>

#include "ringlet/comm/launcher/local_rank.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

/// "rank 12 (pid …" -> 12
std::optional<int> rank_named_first(const std::string& text) {
  constexpr std::string_view kRank = "rank ";
  if (!text.starts_with(kRank)) return std::nullopt;
  return std::atoi(text.c_str() + kRank.size());
}

/// The exit code of the first failed rank. Its node, with `here`, stores it for the other nodes.
int agree_on_code(Job& job, int attempt, const LocalRank* here) {
  const std::string key = str("exit/", attempt);
  const int code = here != nullptr && *here->exit_code != 0 ? *here->exit_code : 1;
  try {
    if (here == nullptr) return std::stoi(job.nodes.store().get(key, job.options.grace + kInStep));
    job.nodes.store().set(key, std::to_string(code));
  } catch (const Error&) {  // the store has ended, or the launcher that had the code
  }
  return code;
}

/// Ranks that had exited with 0: their peers may have failed because these were missing.
std::string those_done(const std::vector<int>& done, std::optional<int> root) {
  std::string list;
  for (const int rank : done)
    if (rank != root) list += str(list.empty() ? "; had exited with code 0: rank " : ", ", rank);
  return list;
}

void print_tail(const LocalRank& root, std::ostream& err) {
  const auto& lines = root.err.tail().empty() ? root.out.tail() : root.err.tail();
  if (lines.empty()) return;
  err << "ringlet: the last lines of rank " << root.rank << ":\n";
  for (const std::string& line : lines) err << "  " << line << '\n';
}

}  // namespace

int report_first_failure(Job& job, int attempt, const TcpStore& alarm,
                         std::vector<LocalRank>& ranks, const std::vector<int>& done) {
  const std::string cause = alarm.cause();
  const std::optional<int> culprit = rank_named_first(alarm.culprit());
  const std::optional<int> named = rank_named_first(cause);
  const std::optional<int> root = culprit ? culprit : named;  // nothing if no rank is to blame
  const auto found = std::find_if(ranks.begin(), ranks.end(),
                                  [&](const LocalRank& rank) { return rank.rank == root; });
  const LocalRank* here = found == ranks.end() ? nullptr : &*found;
  const int code = root ? agree_on_code(job, attempt, here) : 1;
  // The rank refused its input and the screen shows why.
  const std::string refusal = here != nullptr && here->exit_code == 2 ? here->err.error() : "";
  for (LocalRank& rank : ranks) {
    const std::string& error = rank.err.error();
    const bool echo = !refusal.empty() && &rank != here &&
                      (error == refusal || error.starts_with("ringlet: " + cause));
    rank.out.show_error();
    if (!echo) rank.err.show_error();
  }
  job.err << "ringlet: first to fail: ";
  if (root && root != named) job.err << "rank " << *root << ": ";
  job.err << cause;
  if (here != nullptr && culprit) job.err << "; it " << here->process.how_it_ended();
  job.err << those_done(done, root) << '\n';
  if (here != nullptr && refusal.empty()) print_tail(*here, job.err);
  job.err.flush();
  return code;
}

}  // namespace ringlet::comm
