// `ringlet explain ring`, `tree` and `pipeline`: schedules as text and as pictures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ringlet/comm/logical_sum.h"
#include "ringlet/comm/trace.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/parallel/model/pipeline_schedule.h"
#include "ringlet/train/report/svg.h"

namespace ringlet::cli {
namespace {

using comm::Move;
using train::PipelineAction;
using train::PipelineShape;
using train::PipelineTimes;
using train::TimedAction;
using train::svg::Anchor;
using train::svg::Canvas;

void write_drawing(const std::string& file, const std::string& drawing) {
  check_output_file("--svg", file);
  write_file(file, drawing);
  fmt::print(stderr, "wrote {}\n", file);
}

// ---- the ring of an all-reduce ----

std::string title(int ranks) {
  return fmt::format("all-reduce of {} ranks by ring: {} steps", ranks, 2 * (ranks - 1));
}

bool is_complete(const Move& move, int ranks) { return std::ssize(move.sum) == ranks; }
const char* verb(const Move& move) { return move.then == comm::Then::copy ? "copied" : "added"; }

/// A line for each move, under the line of its step, with the ranks that the piece is then the sum
/// of.
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

/// Time runs downwards; each rank is a vertical line, rank 0 again at the right, as the ring closes
/// there. A move is a line in its piece's colour, then the piece's number; it ends in a dot. "✓"
/// follows where the piece is complete.
std::string draw_ring(const std::vector<Move>& moves, int ranks) {
  constexpr double kLeft = 80, kMargin = 30, kColumn = 50, kTop = 110, kStep = 44;
  const double width = std::max(train::svg::kNarrow, kLeft + kColumn * ranks + kMargin);
  const auto x = [&](int column) { return kLeft + (width - kMargin - kLeft) * column / ranks; };
  const auto y = [&](int step) { return kTop + kStep * step; };
  const int steps = 2 * (ranks - 1);
  Canvas canvas(width);
  canvas.text(kLeft, 26, Anchor::start, "title", title(ranks));
  canvas.text(kLeft, 46, Anchor::start, "",
              "A line moves the piece of its number to the next rank.");
  canvas.text(kLeft, 64, Anchor::start, "", "✓: the piece has the values of all.");
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

void add_ring(Command& explain) {
  Command& command = explain.add_command(
      "ring", "The steps of a ring's all-reduce: the schedule that ranks execute");
  struct Options {
    int ranks = 4;
    std::string svg;
  };
  const auto options = std::make_shared<Options>();
  command.add("-n,--ranks", options->ranks, Range{2, 16}, "Ranks");
  command.add("--svg", options->svg, "Also draw them to this file");
  command.run = [options] {
    const auto& [ranks, svg] = *options;
    const auto moves = comm::all_moves(comm::Op::all_reduce, comm::Algorithm::ring, ranks);
    if (!svg.empty()) write_drawing(svg, draw_ring(moves, ranks));
    fmt::print("{}", describe_ring(moves, ranks));
  };
}

// ---- the tree of sums over logical ranks ----

/// A line for each sum, under the sum that it is a part of, with the rank that adds it. Then what
/// each rank sends.
std::string describe_tree(int ranks, int logical_ranks) {
  const auto leaves = [](LeafRange range) {
    return range.size() == 1 ? std::to_string(range.begin)
                             : fmt::format("{}-{}", range.begin, range.end - 1);
  };
  std::string text =
      fmt::format("{} logical ranks on {} ranks\n{:<22}added by\n", logical_ranks, ranks, "sum");
  for (const auto& [range, depth, by] : comm::tree_sums(ranks, logical_ranks)) {
    const std::string adds = by < 0 ? "each piece's owner" : fmt::format("rank {}", by);
    text += fmt::format("{:<22}{}\n",
                        std::string(2 * static_cast<std::size_t>(depth), ' ') + leaves(range),
                        range.size() > 1 ? adds : "of " + adds);
  }
  const comm::Pieces pieces(static_cast<std::size_t>(ranks), comm::Piece{0, 1});
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> nodes;
    for (const LeafRange node : comm::nodes_of_rank(rank, ranks, logical_ranks))
      nodes.push_back(leaves(node));
    const std::int64_t sent = comm::elements_sent(
        comm::make_tree_schedule(comm::Op::all_reduce, rank, ranks, logical_ranks), pieces);
    text += fmt::format("rank {} has {} and brings {}; it sends {:.4g} times the buffer\n", rank,
                        leaves(leaves_of_rank(rank, ranks, logical_ranks)), fmt::join(nodes, ", "),
                        static_cast<double>(sent) / ranks);
  }
  return text;
}

void add_tree(Command& explain) {
  Command& command = explain.add_command(
      "tree", "The sums over logical ranks, the same on any number of ranks, and who adds them");
  struct Options {
    int ranks = 3, logical_ranks = 8;
  };
  const auto options = std::make_shared<Options>();
  command.add("-n,--ranks", options->ranks, Range{1, 64}, "Ranks");
  command.add("--logical-ranks", options->logical_ranks, Range{1, 64}, "Logical ranks");
  command.run = [options] {
    const auto& [ranks, logical_ranks] = *options;
    if (logical_ranks < ranks)
      fail_input("--logical-ranks ", logical_ranks, ": expected at least --ranks ", ranks);
    fmt::print("{}", describe_tree(ranks, logical_ranks));
  };
}

// ---- a pipeline in time ----

std::string pipeline_title(train::PipelineKind kind, const PipelineShape& shape) {
  return fmt::format("{} of {} stages on {} ranks, {} micro-batches", train::kPipelines(kind),
                     shape.stages(), shape.ranks, shape.micro_batches);
}

std::string cell_of(const PipelineAction& action, const PipelineShape& shape) {
  const std::string chunk =
      shape.chunks > 1 ? std::string(1, static_cast<char>('a' + action.chunk)) : "";
  return fmt::format("{}{}{}", letter(action.what), action.micro_batch, chunk);
}

std::string widest_cell(const PipelineShape& shape) {
  return cell_of({.chunk = shape.chunks - 1, .micro_batch = shape.micro_batches - 1}, shape);
}

/// Computations of a whole number of units.
std::string line_of(const std::vector<TimedAction>& actions, const PipelineShape& shape,
                    std::size_t width) {
  std::string line;
  const auto add = [&](const std::string& cell) { line += fmt::format(" {:<{}}", cell, width); };
  double now = 0;
  for (const TimedAction& timed : actions) {
    for (; now < timed.start; ++now) add(".");
    add(cell_of(timed.action, shape));
    for (++now; now < timed.end; ++now) add("-");
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

/// A line for each rank, a cell for each unit of time: "F3" is the forward of micro-batch 3, "F3b"
/// that of the second chunk; "-" continues a computation, "." waits. Then the bubble, the messages
/// and the activations that ranks keep.
std::string describe_pipeline(train::PipelineKind kind, const PipelineShape& shape,
                              const PipelineTimes& times) {
  const std::size_t width = widest_cell(shape).size();
  std::string text = pipeline_title(kind, shape) +
                     "\nF forward, I gradient of the input, W gradient of the weights, B both; a "
                     "unit of time each, B two\n\n";
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank)
    text += fmt::format("rank {:<2}{}\n", rank, line_of(times.ranks[rank], shape, width));
  return text + fmt::format(
                    "\n{} units of time, of which ranks wait {:.1f} % (the bubble); {} messages\n"
                    "micro-batches that a rank keeps at most, for gradients of inputs: {}; of "
                    "weights: {}\n",
                    times.makespan, 100 * times.bubble(), times.messages,
                    fmt::join(times.peak_activations, " "),
                    fmt::join(times.peak_weight_inputs, " "));
}

/// Time runs to the right; each rank is a row of bars.
std::string draw_pipeline(train::PipelineKind kind, const PipelineShape& shape,
                          const PipelineTimes& times) {
  constexpr double kLeft = 70, kTop = 86, kRow = 34, kBar = 26, kMostBlocks = 4;
  const double space = train::svg::kNarrow - kLeft - 20;
  const double cell_width = train::svg::text_width(widest_cell(shape)) + 4;
  // Time runs on in the next block of rows where the cells' texts need more space.
  const double units = std::max(std::floor(space / cell_width), times.makespan / kMostBlocks);
  const double blocks = std::ceil(times.makespan / units);
  const double length = std::ceil(times.makespan / blocks), unit = space / length;
  const double block_height = kRow * static_cast<double>(times.ranks.size()) + 20;
  Canvas canvas(train::svg::kNarrow);
  canvas.text(20, 26, Anchor::start, "title", std::string(train::kPipelines(kind)));
  canvas.text(
      20, 46, Anchor::start, "",
      fmt::format("{} stages on {} ranks, {} micro-batches; ranks wait {:.1f} % of the time",
                  shape.stages(), shape.ranks, shape.micro_batches, 100 * times.bubble()));
  canvas.text(20, 64, Anchor::start, "", "Time runs to the right, then in the rows below.");
  const auto row = [&](double block, std::size_t rank) {
    return kTop + block_height * block + kRow * static_cast<double>(rank);
  };
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank) {
    for (double block = 0; block < blocks; ++block)
      canvas.text(kLeft - 10, row(block, rank) + kBar / 2 + 4, Anchor::end, "",
                  fmt::format("rank {}", rank));
    for (const TimedAction& timed : times.ranks[rank]) {
      const std::string cell = cell_of(timed.action, shape);
      for (double start = timed.start; start < timed.end;) {
        const double block = std::floor(start / length);
        const double end = std::min(timed.end, (block + 1) * length);
        const double x = kLeft + unit * (start - block * length), y = row(block, rank);
        const double width = unit * (end - start);
        canvas.bar(x, y, width - 1, kBar,
                   "dot " + train::svg::colour_class(static_cast<std::size_t>(timed.action.what)),
                   cell);
        if (train::svg::text_width(cell) < width)
          canvas.text(x + width / 2, y + kBar / 2 + 4, Anchor::middle, train::svg::kOnShape, cell);
        start = end;
      }
    }
  }
  return canvas.document(row(blocks, 0), pipeline_title(kind, shape));
}

void add_pipeline(Command& explain) {
  Command& command = explain.add_command(
      "pipeline", "The computations of a pipeline's ranks in time, and how long they wait");
  struct Options {
    int stages = 4, chunks = 1, micro_batches = 8;
    train::PipelineKind kind = train::PipelineKind::one_f_one_b;
    std::string svg;
  };
  const auto options = std::make_shared<Options>();
  command.add("--schedule", options->kind, train::kPipelines, train::kPipelines.list());
  command.add("--stages", options->stages, Range{1, 64}, "Stages of the model");
  command.add("--micro-batches", options->micro_batches, Range{1, 256}, "Parts of a batch");
  command.add("--chunks", options->chunks, Range{1, 16},
              "Stages of each rank; interleaved-1f1b needs 2 or more");
  command.add("--svg", options->svg, "Also draw them to this file");
  command.run = [options] {
    const auto& [stages, chunks, micro_batches, kind, svg] = *options;
    if (stages % chunks != 0)
      fail_input("--stages ", stages, ": expected a multiple of --chunks ", chunks);
    const PipelineShape shape{stages / chunks, micro_batches, chunks};
    const PipelineTimes times = of_option("--schedule", [&shape, kind = options->kind] {
      return simulate_pipeline(make_pipeline(kind, shape), shape);
    });
    if (!svg.empty()) write_drawing(svg, draw_pipeline(kind, shape, times));
    fmt::print("{}", describe_pipeline(kind, shape, times));
  };
}

}  // namespace

void add_explain_schedules(Command& explain) {
  add_ring(explain);
  add_tree(explain);
  add_pipeline(explain);
}

}  // namespace ringlet::cli
