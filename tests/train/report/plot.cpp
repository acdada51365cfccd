#include "ringlet/train/report/plot.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++found;
  return found;
}

void check_ticks(const std::vector<double>& ticks, const std::vector<double>& expected) {
  REQUIRE_EQ(ticks.size(), expected.size());
  for (std::size_t i = 0; i < ticks.size(); ++i)
    CHECK(std::abs(ticks[i] - expected[i]) <= 1e-12 * std::abs(expected[i]));
}

}  // namespace

TEST_CASE("ticks are round and enclose the data") {
  check_ticks(round_ticks(0, 1, 5), {0, 0.2, 0.4, 0.6, 0.8, 1});
  check_ticks(round_ticks(0.37, 1.11, 5), {0.2, 0.4, 0.6, 0.8, 1, 1.2});
  check_ticks(round_ticks(-3, 12, 4), {-5, 0, 5, 10, 15});
  check_ticks(round_ticks(0, 1380, 10), {0, 200, 400, 600, 800, 1000, 1200, 1400});
  check_ticks(round_ticks(2e-5, 4e-5, 4), {2e-5, 2.5e-5, 3e-5, 3.5e-5, 4e-5});
  CHECK(round_ticks(7, 7, 5).back() > 7);  // one value still gets an axis
  CHECK(round_ticks(std::nextafter(1, 0), 1, 5).back() > 1);
  CHECK_THROWS_AS(round_ticks(1, 0, 5), Error);
  CHECK_THROWS_AS(round_ticks(0, std::numeric_limits<double>::infinity(), 5), Error);
}

TEST_CASE("a line chart has its title, axes, legend and one line per series") {
  LineChart chart{"Loss & score", "step", "loss", {}, {{"ln 3", std::log(3.0)}}};
  chart.series.push_back({"nli", {1, 2, 3}, {1.1, 0.9, 0.7}});
  chart.series.push_back({"stsb", {1, 2, 3}, {0.3, 0.2, 0.1}});
  const std::string svg = draw_lines(chart);
  CHECK_EQ(svg.substr(0, 4), "<svg");
  CHECK(contains(svg, "Loss &amp; score"));
  CHECK(contains(svg, ">nli</text>"));
  CHECK(contains(svg, ">stsb</text>"));
  CHECK(contains(svg, ">ln 3</text>"));
  CHECK(contains(svg, ">1.2</text>"));  // the highest tick
  CHECK_EQ(count(svg, "<polyline"), 2);
  CHECK(contains(svg, "prefers-color-scheme: dark"));
}

TEST_CASE("points land where the axes say") {
  const std::string svg = draw_lines({"", "", "", {{"", {0, 10}, {0, 1}}}, {}});
  CHECK(contains(svg, "points=\"62.0,306.0 460.0,66.0\""));
}

TEST_CASE("a legend that is too long for a row has several, above the axes") {
  const std::string name(30, 'n');
  LineChart chart{"", "", "", {}, {}};
  for (double i : {0.0, 1.0, 2.0}) chart.series.push_back({name, {0, 10}, {0, 1 + i}});
  const std::string svg = draw_lines(chart);
  for (const char* y : {"48.0", "66.0", "84.0"})
    CHECK(contains(svg, str("x=\"86.0\" y=\"", y, "\" text-anchor=\"start\">", name)));
  CHECK(contains(svg, "62.0,342.0 460.0,"));  // the axes are two rows lower
}

TEST_CASE("a value that is not finite interrupts the line") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = draw_lines({"", "", "", {{"", {0, 1, 2, 3, 4}, {0, 1, nan, 1, 0}}}, {}});
  CHECK_EQ(count(svg, "<polyline"), 2);
  CHECK_FALSE(contains(svg, "nan"));
}

TEST_CASE("charts without points and with one point are drawn") {
  CHECK_EQ(count(draw_lines({"empty", "", "", {}, {}}), "<polyline"), 0);
  const std::string dot = draw_lines({"dot", "", "", {{"", {3}, {5}}}, {}});
  CHECK_EQ(count(dot, "<polyline"), 0);  // without a length
  CHECK(contains(dot, "<circle class=\"dot c0\" cx=\"261.0\" cy=\"186.0\" r=\"4.0\"/>"));
  CHECK(contains(dot, ".dot.c0 { fill: #0072b2 }"));
  CHECK_THROWS_WITH_AS(draw_lines({"", "", "", {{"s", {1, 2}, {1}}}, {}}),
                       "[draw_lines] series 's': 2 != 1", Error);
}

TEST_CASE("a long series is thinned but keeps its extremes") {
  Series series{"", {}, {}};
  for (int i = 0; i < 100000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 51234 ? 10 : 0);
  }
  const std::string svg = draw_lines({"", "", "", {series}, {}});
  CHECK(svg.size() < 100000);
  CHECK(contains(svg, ",66.0"));  // the peak, at the top of the chart
}

TEST_CASE("a moving average is centred and narrows at the ends") {
  const Series smooth = moving_average({"s", {1, 2, 3, 4}, {0, 3, 6, 1}}, 3);
  CHECK_EQ(smooth.y, std::vector<double>{0, 3, 10.0 / 3, 1});
  CHECK_EQ(smooth.x, std::vector<double>{1, 2, 3, 4});
  CHECK_FALSE(moving_average({"", {1, 2}, {0, 3}, /*faint=*/true}, 3).faint);
}
