#include "ringlet/train/cli/pipeline_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ringlet/train/report/svg.h"

namespace ringlet::cli {
namespace {

using train::PipelineAction;
using train::PipelineShape;
using train::PipelineTimes;
using train::TimedAction;
using train::svg::Anchor;
using train::svg::Canvas;

PipelineTimes times_of(train::PipelineKind kind, const PipelineShape& shape) {
  return simulate_pipeline(make_pipeline(kind, shape), shape);
}

std::string pipeline_title(train::PipelineKind kind, const PipelineShape& shape) {
  return fmt::format("{} of {} stages on {} ranks, {} micro-batches", train::kPipelines(kind),
                     shape.stages(), shape.ranks, shape.micro_batches);
}

std::string cell_of(const PipelineAction& action, const PipelineShape& shape) {
  const std::string chunk =
      shape.chunks > 1 ? std::string(1, static_cast<char>('a' + action.chunk)) : "";
  return fmt::format("{}{}{}", letter(action.what), action.micro_batch, chunk);
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

}  // namespace

std::string describe_pipeline(train::PipelineKind kind, const PipelineShape& shape) {
  const PipelineTimes times = times_of(kind, shape);
  const std::size_t width =
      cell_of({.chunk = shape.chunks - 1, .micro_batch = shape.micro_batches - 1}, shape).size();
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

std::string draw_pipeline(train::PipelineKind kind, const PipelineShape& shape) {
  const PipelineTimes times = times_of(kind, shape);
  constexpr double kLeft = 70, kTop = 66, kRow = 34, kBar = 26;
  const double unit = (train::svg::kWidth - kLeft - 20) / times.makespan;
  Canvas canvas;
  canvas.text(kLeft, 26, Anchor::start, "title", pipeline_title(kind, shape));
  canvas.text(
      kLeft, 46, Anchor::start, "",
      fmt::format("Time runs to the right. Ranks wait {:.1f} % of it.", 100 * times.bubble()));
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    canvas.text(kLeft - 10, y + kBar / 2 + 4, Anchor::end, "", fmt::format("rank {}", rank));
    for (const TimedAction& timed : times.ranks[rank]) {
      const double x = kLeft + unit * timed.start, width = unit * (timed.end - timed.start);
      const std::string cell = cell_of(timed.action, shape);
      canvas.bar(x, y, width - 1, kBar,
                 "dot " + train::svg::colour_class(static_cast<std::size_t>(timed.action.what)),
                 cell);
      if (train::svg::text_width(cell) < width)
        canvas.text(x + width / 2, y + kBar / 2 + 4, Anchor::middle, train::svg::kOnShape, cell);
    }
  }
  return canvas.document(kTop + kRow * static_cast<double>(times.ranks.size()) + 10,
                         pipeline_title(kind, shape));
}

}  // namespace ringlet::cli
