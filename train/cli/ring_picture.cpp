#include "ringlet/train/cli/ring_picture.h"

#include <fmt/format.h>

#include "ringlet/train/report/svg.h"

namespace ringlet::cli {
namespace {

using comm::Move;
using train::svg::Anchor;
using train::svg::Canvas;

std::string title(int ranks) {
  return fmt::format("all-reduce of {} ranks by ring: {} steps", ranks, 2 * (ranks - 1));
}

bool is_complete(const Move& move, int ranks) { return std::ssize(move.sum) == ranks; }
const char* verb(const Move& move) { return move.then == comm::Then::copy ? "copied" : "added"; }

}  // namespace

std::string describe_ring(const std::vector<Move>& moves, int ranks) {
  std::string text = title(ranks) + fmt::format("; a piece is 1/{} of the buffer\n", ranks);
  int step = -1;
  for (const Move& move : moves) {
    if (move.step != step) text += fmt::format("step {}\n", step = move.step);
    text += fmt::format("  rank {} -> {}  piece {}  {}: {}{}\n", move.from, move.to, move.piece,
                        verb(move), fmt::join(move.sum, " + "),
                        is_complete(move, ranks) ? ", complete" : "");
  }
  return text + fmt::format("each rank sends {} pieces, 2 (n - 1) / n = {:.4g} times the buffer\n",
                            std::ssize(moves) / ranks,
                            static_cast<double>(moves.size()) / ranks / ranks);
}

std::string draw_ring(const std::vector<Move>& moves, int ranks) {
  constexpr double kLeft = 90, kRight = train::svg::kWidth - 40, kTop = 92, kStep = 44;
  const auto x = [&](int column) { return kLeft + (kRight - kLeft) * column / ranks; };
  const auto y = [&](int step) { return kTop + kStep * step; };
  const int steps = 2 * (ranks - 1);
  Canvas canvas;
  canvas.text(kLeft, 26, Anchor::start, "title", title(ranks));
  canvas.text(
      kLeft, 46, Anchor::start, "",
      "A line moves the piece of its number to the next rank; ✓: it has the values of all.");
  for (int column = 0; column <= ranks; ++column) {
    canvas.line(x(column), kTop, x(column), y(steps), "grid");
    canvas.text(x(column), kTop - 12, Anchor::middle, "", fmt::format("rank {}", column % ranks));
  }
  int step = -1;
  for (const Move& move : moves) {
    const int from = move.from, to = from + 1;  // rank 0 at the right, too
    if (move.step != step) {
      step = move.step;
      canvas.text(kLeft - 24, y(step) + 4, Anchor::end, "",
                  fmt::format("{} {}", step, move.then == comm::Then::copy ? "copy" : "add"));
    }
    const std::string colour = train::svg::colour_class(static_cast<std::size_t>(move.piece));
    canvas.line(x(from), y(step), x(to), y(step + 1), "line " + colour);
    canvas.text((x(from) + x(to)) / 2 + 4, y(step) + kStep / 2 - 4, Anchor::start, "",
                std::to_string(move.piece));
    canvas.dot(x(to), y(step + 1), "dot " + colour);
    if (is_complete(move, ranks)) canvas.text(x(to) + 6, y(step + 1) + 4, Anchor::start, "", "✓");
  }
  return canvas.document(y(steps) + 30, title(ranks));
}

}  // namespace ringlet::cli
