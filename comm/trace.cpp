#include "ringlet/comm/trace.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

std::string_view verb(Then then) {
  switch (then) {
    case Then::copy:
      return "copy";
    case Then::add:
      return "add";
    case Then::add_all:
      return "add all, in rank order";
    case Then::stack:
      break;
  }
  return "stack, in rank order";
}

}  // namespace

void TracePrinter::begins(const Collective& collective, const Membership& rank) {
  const Call& call = collective.call;
  std::ostringstream out;
  out << "collective " << call.sequence << ": " << describe(call) << ", " << name(call.algorithm)
      << ", rank " << rank.rank << " of " << rank.size;
  if (collective.segments > 1) out << ", in " << collective.segments << " segments";
  out << "\n  step  send              receive           then\n";

  const auto column = [&](const std::vector<Transfer>& transfers, std::size_t line,
                          const char* arrow) {
    if (line >= transfers.size()) return std::string();
    const auto& [peer, piece] = transfers[line];
    const auto elements = collective.pieces[static_cast<std::size_t>(piece)].count;
    return str(piece, arrow, peer, ", ", static_cast<std::size_t>(elements) * itemsize(call.dtype),
               " B");
  };
  for (std::size_t step = 0; step < collective.schedule.size(); ++step) {
    const auto& [sends, receives, then] = collective.schedule[step];
    for (std::size_t line = 0; line < std::max(sends.size(), receives.size()); ++line) {
      std::ostringstream row;
      row << std::setw(6) << (line == 0 ? std::to_string(step) : "") << "  " << std::left
          << std::setw(18) << column(sends, line, " -> ") << std::setw(18)
          << column(receives, line, " <- ");
      if (line == 0 && !receives.empty()) row << verb(then);
      std::string text = row.str();
      text.erase(text.find_last_not_of(' ') + 1);
      out << text << '\n';
    }
  }
  out_ << out.str() << std::flush;  // whole, since ranks may be threads
}

}  // namespace ringlet::comm
