#include "ringlet/train/report/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/train/report/svg.h"

namespace ringlet::train {
namespace {

using svg::Anchor;
using svg::Canvas;

constexpr double kLeft = 62;
constexpr double kRight = svg::kNarrow - 20;
constexpr double kPlotHeight = 240;

struct AxisRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// A range that can be drawn: never empty, never a point.
AxisRange drawable(AxisRange range) {
  if (range.low > range.high) return {0, 1};
  if (range.low < range.high) return range;
  const double margin = range.low == 0 ? 1 : std::abs(range.low) * 0.1;
  return {range.low - margin, range.high + margin};
}

/// Maps values to pixels.
struct Scale {
  double low, high;
  double from, to;
  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

bool finite(double x, double y) { return std::isfinite(x) && std::isfinite(y); }

using Points = std::vector<std::pair<double, double>>;

/// Keeps four points of each column of pixels, in order: the first, lowest, highest and last.
Points thin(const Points& points) {
  Points out;
  for (std::size_t begin = 0, end; begin < points.size(); begin = end) {
    const double column = std::floor(points[begin].first);
    end = begin;
    std::size_t low = begin, high = begin;
    for (; end < points.size() && std::floor(points[end].first) == column; ++end) {
      if (points[end].second < points[low].second) low = end;
      if (points[end].second > points[high].second) high = end;
    }
    std::size_t kept[] = {begin, std::min(low, high), std::max(low, high), end - 1};
    for (std::size_t* k = kept; k != std::unique(kept, kept + 4); ++k) out.push_back(points[*k]);
  }
  return out;
}

void draw_series(Canvas& canvas, const Series& series, const Scale& x, const Scale& y,
                 const std::string& classes) {
  Points run;
  const auto end_run = [&] {
    if (run.size() == 1)
      canvas.dot(run[0].first, run[0].second, "dot " + classes);
    else if (!run.empty())
      canvas.polyline(thin(run), "line " + classes);
    run.clear();
  };
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (finite(series.x[i], series.y[i]))
      run.push_back({x(series.x[i]), y(series.y[i])});
    else
      end_run();
  }
  end_run();
}

std::pair<AxisRange, AxisRange> ranges(const LineChart& chart) {
  AxisRange x, y;
  for (const Series& series : chart.series) {
    RINGLET_CHECK_EQ(series.x.size(), series.y.size(), "[draw_lines] series '", series.name, "'");
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!finite(series.x[i], series.y[i])) continue;
      x.include(series.x[i]);
      y.include(series.y[i]);
    }
  }
  for (const Level& level : chart.levels) y.include(level.y);
  return {drawable(x), drawable(y)};
}

/// Below the title; returns the y of its last row.
double draw_legend(Canvas& canvas, const LineChart& chart, const std::vector<std::string>& classes,
                   double top) {
  svg::Legend legend(kLeft, kRight, top + 48);
  const auto entry = [&](const std::string& name, const std::string& line) {
    constexpr double kMark = 24;
    if (name.empty()) return;
    const auto [x, y] = legend.place(kMark, name);
    canvas.line(x, y - 4, x + kMark - 6, y - 4, line);
    canvas.text(x + kMark, y, Anchor::start, "", name);
  };
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    entry(chart.series[i].name, "line " + classes[i]);
  for (const Level& level : chart.levels) entry(level.name, "level");
  return legend.bottom();
}

void draw_axes(Canvas& canvas, const LineChart& chart, double bottom, const Scale& x,
               const Scale& y) {
  for (const double tick : round_ticks(y.low, y.high, 6)) {
    canvas.line(kLeft, y(tick), kRight, y(tick), "grid");
    canvas.text(kLeft - 8, y(tick) + 4, Anchor::end, "", svg::number(tick));
  }
  for (const double tick : round_ticks(x.low, x.high, 7)) {
    if (tick < x.low || tick > x.high) continue;
    canvas.line(x(tick), bottom, x(tick), bottom + 5, "axis");
    canvas.text(x(tick), bottom + 19, Anchor::middle, "", svg::number(tick));
  }
  canvas.line(kLeft, bottom, kRight, bottom, "axis");
  canvas.text((kLeft + kRight) / 2, bottom + 38, Anchor::middle, "", chart.x_label);
  canvas.text_upwards(14, bottom - kPlotHeight / 2, "", chart.y_label);
}

/// Returns the y below it.
double draw_chart(Canvas& canvas, const LineChart& chart, double top) {
  std::vector<std::string> classes;
  std::size_t colour = 0;
  for (const Series& series : chart.series) {
    classes.push_back(str(svg::colour_class(colour), series.faint ? " faint" : ""));
    if (!series.faint) ++colour;
  }
  canvas.text(kLeft, top + 26, Anchor::start, "title", chart.title);
  const double bottom = draw_legend(canvas, chart, classes, top) + 18 + kPlotHeight;
  const auto [x_range, y_range] = ranges(chart);
  const std::vector<double> y_ticks = round_ticks(y_range.low, y_range.high, 6);
  const Scale x{x_range.low, x_range.high, kLeft, kRight};
  const Scale y{y_ticks.front(), y_ticks.back(), bottom, bottom - kPlotHeight};
  draw_axes(canvas, chart, bottom, x, y);
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    draw_series(canvas, chart.series[i], x, y, classes[i]);
  for (const Level& level : chart.levels)
    canvas.line(kLeft, y(level.y), kRight, y(level.y), "level");
  return bottom + 54;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int at_most) {
  RINGLET_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high && at_most >= 1,
                "[round_ticks] no ticks from ", low, " to ", high);
  // A range within rounding has no ticks inside: there may be no numbers between its ends.
  if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high)))
    high = low + (low == 0 ? 1 : std::abs(low));
  const double power = std::pow(10, std::floor(std::log10((high - low) / at_most)));
  for (double factor : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0}) {
    const double step = factor * power;
    // A small tolerance, so that 0.3 is a multiple of 0.1.
    const double first = std::floor(low / step + 1e-9);
    const double last = std::max(std::ceil(high / step - 1e-9), first + 1);
    if (last - first > at_most) continue;
    std::vector<double> ticks;
    for (double i = first; i <= last; ++i) ticks.push_back(i * step);
    return ticks;
  }
  return {low, high};
}

Series moving_average(const Series& series, std::size_t window) {
  Series out = series;
  out.faint = false;  // its points may be in the background
  const std::size_t n = series.y.size();
  const std::size_t half = window / 2;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t reach = std::min({half, i, n - 1 - i});
    double sum = 0;
    for (std::size_t k = i - reach; k <= i + reach; ++k) sum += series.y[k];
    out.y[i] = sum / static_cast<double>(2 * reach + 1);
  }
  return out;
}

std::string draw_lines(std::span<const LineChart> charts) {
  Canvas canvas(svg::kNarrow);
  double top = 0;
  for (const LineChart& chart : charts) top = draw_chart(canvas, chart, top);
  return canvas.document(top, charts.empty() ? "" : charts.front().title);
}

std::string draw_lines(const LineChart& chart) { return draw_lines(std::span(&chart, 1)); }

}  // namespace ringlet::train
