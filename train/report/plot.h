// Charts as SVG text, readable on light and dark pages (the viewer's colour scheme decides).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ringlet::train {

/// Points in drawing order; a point that is not finite interrupts the line.
struct Series {
  std::string name;  // of the legend; empty: not in the legend
  std::vector<double> x;
  std::vector<double> y;  // as many as x
  bool faint = false;     // in the background, in the colour of the series that follows
};

/// A dashed horizontal line, for instance the loss of guessing.
struct Level {
  std::string name;
  double y = 0;
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
  std::vector<Level> levels;
};

/// Charts one below the other. A series with different numbers of x and y is Error.
std::string draw_lines(std::span<const LineChart> charts);
std::string draw_lines(const LineChart& chart);

/// Multiples of 1, 2 or 5 times a power of ten, in `at_most` or fewer intervals: the first at or
/// below `low`, the last at or above `high`; at least two. Both must be finite.
std::vector<double> round_ticks(double low, double high, int at_most);

/// Centred means over up to `window` points, fewer at both ends, not faint; the x values stay.
Series moving_average(const Series& series, std::size_t window);

}  // namespace ringlet::train
