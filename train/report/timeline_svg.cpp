#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ringlet/train/report/plot.h"
#include "ringlet/train/report/svg.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

using svg::Anchor;

/// From the last step's first phase, which follows an optimizer's, to its end.
struct Window {
  double begin = 0, end = 0;
  double of(const Span& span) const {
    return std::max(0.0, std::min(span.end, end) - std::max(span.begin, begin));
  }
};
Window last_step(const RankTimeline& rank) {
  Window step;
  bool begins = true;
  for (const Span& span : rank.spans) {
    if (span.track != "steps") continue;
    if (begins) step.begin = span.begin;
    begins = span.name == "optimizer";
    step.end = std::max(step.end, span.end);
  }
  return step;
}

/// The outermost spans of a track.
template <class Use>
void for_outermost(const RankTimeline& rank, const std::string& track, const Use& use) {
  for (const Span& span : rank.spans)
    if (span.depth == 0 && span.track == track) use(span);
}

/// Its tracks, but for the phases: data, compute, those of other devices, collectives.
std::vector<std::string> lanes_of(const RankTimeline& rank) {
  std::vector<std::string> lanes{"data", "compute"};
  for (const Span& span : rank.spans)
    if (span.track != "steps" && std::ranges::find(lanes, span.track) == lanes.end())
      lanes.push_back(span.track);
  std::sort(lanes.begin() + 2, lanes.end());
  return lanes;
}

class TimelinePicture {
 public:
  explicit TimelinePicture(const std::vector<RankTimeline>& ranks) : ranks_(ranks) {
    std::map<std::string, double> seconds;
    for (const RankTimeline& rank : ranks_) {
      const Window step = last_step(rank);
      longest_ = std::max(longest_, step.end - step.begin);
      for_outermost(rank, "compute", [&](const Span& span) {
        if (span.kind == "kernel") seconds[span.name] += step.of(span);
      });
    }
    for (const auto& [name, of_it] : seconds) ops_.push_back(name);
    std::ranges::sort(ops_, [&](const auto& a, const auto& b) { return seconds[a] > seconds[b]; });
    ops_.resize(std::min(ops_.size(), kOps));
  }

  std::string draw() {
    canvas_.text(kLeft, 24, Anchor::start, "title", kName);
    double y = draw_legend() + 16;
    for (const RankTimeline& rank : ranks_) y = draw(rank, y);
    draw_axis(y);
    return canvas_.document(y + 46, kName);
  }

 private:
  static constexpr const char* kName = "The last step of each rank";
  static constexpr double kLeft = 16, kRight = svg::kNarrow - 24;
  static constexpr double kLane = 20, kBar = 16, kTitle = 26, kLabels = 84;
  static constexpr std::size_t kOps = 4;  // with colours of their own

  std::size_t colour(const Span& span) const {
    if (span.kind == "wait" || span.kind == "phase") return svg::kColours - 1;
    if (span.kind == "collective") return kOps;
    const auto found = std::ranges::find(ops_, span.name);
    return found == ops_.end() ? kOps : static_cast<std::size_t>(found - ops_.begin());
  }

  /// Returns the y of its last row.
  double draw_legend() {
    svg::Legend legend(kLeft, kRight, 46);
    const auto entry = [&](std::size_t colour, const std::string& name) {
      constexpr double kMark = 14;
      const auto [x, y] = legend.place(kMark, name);
      canvas_.bar(x, y - 10, 10, 10, "dot " + svg::colour_class(colour), name);
      canvas_.text(x + kMark, y, Anchor::start, "", name);
    };
    for (std::size_t op = 0; op < ops_.size(); ++op) entry(op, ops_[op]);
    entry(kOps, "other kernels, collectives");
    entry(svg::kColours - 1, "waits");
    return legend.bottom();
  }

  /// For all ranks: their steps begin at 0.
  void draw_axis(double y) {
    if (longest_ == 0) return;
    const double left = kLeft + kLabels;
    canvas_.line(left, y, kRight, y, "axis");
    for (const double tick : round_ticks(0, 1e3 * longest_, 5)) {
      const double x = left + scale() * tick / 1e3;
      if (x > kRight + 0.5) continue;
      canvas_.line(x, y, x, y + 5, "axis");
      canvas_.text(x, y + 19, Anchor::middle, "", svg::number(tick));
    }
    canvas_.text((left + kRight) / 2, y + 38, Anchor::middle, "", "ms");
  }

  /// Returns the y below it.
  double draw(const RankTimeline& rank, double y) {
    const Window step = last_step(rank);
    canvas_.text(kLeft, y + 16, Anchor::start, "", rank.title + describe(rank, step));
    y += kTitle;
    const std::vector<std::string> lanes = lanes_of(rank);
    draw_phases(rank, step, y, static_cast<double>(1 + lanes.size()) * kLane);
    for (const std::string& lane : lanes) draw_lane(rank, lane, step, y += kLane);
    y += kLane;
    return y + 8;
  }

  /// A line at the beginning of each, through all lanes, and its name if there is room.
  void draw_phases(const RankTimeline& rank, const Window& step, double y, double height) {
    for_outermost(rank, "steps", [&](const Span& span) {
      if (step.of(span) <= 0) return;
      const double x = kLeft + kLabels + scale() * (span.begin - step.begin);
      canvas_.line(x, y, x, y + height, "grid");
      if (scale() * step.of(span) > svg::text_width(span.name))
        canvas_.text(x + 4, y + 12, Anchor::start, "", span.name);
    });
  }
  double scale() const { return (kRight - kLeft - kLabels) / longest_; }

  // Spans narrower than a pixel are drawn with their neighbours of the same colour.
  void draw_lane(const RankTimeline& rank, const std::string& track, const Window& step, double y) {
    struct Drawn {
      double from, to;
      std::string about;
    };
    constexpr double kGap = 0.5;
    canvas_.text(kLeft, y + 12, Anchor::start, "", track);
    std::map<std::size_t, Drawn> last;  // by colour
    const auto flush = [&](std::size_t colour, const Drawn& bar) {
      canvas_.bar(bar.from, y, std::max(bar.to - bar.from, kGap), kBar,
                  "dot " + svg::colour_class(colour), bar.about);
    };
    for_outermost(rank, track, [&](const Span& span) {
      if (step.of(span) <= 0) return;
      const double from = kLeft + kLabels + scale() * std::max(0.0, span.begin - step.begin);
      const double to = from + scale() * step.of(span);
      const Drawn bar{from, to,
                      fmt::format("{}, {:.2f} ms", span.name, 1e3 * (span.end - span.begin))};
      const auto [found, is_new] = last.try_emplace(colour(span), bar);
      Drawn& before = found->second;
      if (is_new) return;
      if (from - before.to < kGap && before.to - before.from < 1) {
        before.to = to;
      } else {
        flush(found->first, before);
        before = bar;
      }
    });
    for (const auto& [colour, bar] : last) flush(colour, bar);
  }

  static std::string describe(const RankTimeline& rank, const Window& step) {
    double collectives = 0, waits = 0;
    for (const Span& span : rank.spans) {
      if (span.kind == "collective") collectives += step.of(span);
      if (span.kind == "wait" && span.name == "collectives") waits += step.of(span);
    }
    const std::string text = fmt::format(": {:.1f} ms", 1e3 * (step.end - step.begin));
    if (collectives == 0) return text;
    return text + fmt::format(", {:.1f} ms of collectives, {:.1f} ms of waiting", 1e3 * collectives,
                              1e3 * waits);
  }

  const std::vector<RankTimeline>& ranks_;
  std::vector<std::string> ops_;  // the slowest, slowest first
  double longest_ = 0;
  svg::Canvas canvas_{svg::kNarrow};
};

}  // namespace

std::string to_svg(const std::vector<RankTimeline>& ranks) { return TimelinePicture(ranks).draw(); }

}  // namespace ringlet::train
