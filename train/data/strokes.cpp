#include "ringlet/train/data/strokes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

struct Point {
  double x, y;
};

/// A quadratic Bézier curve; x to the right, y downwards, both from 0 to 1.
using Curve = std::array<Point, 3>;
using Glyph = std::vector<Curve>;

Curve line(Point from, Point to) { return {from, {(from.x + to.x) / 2, (from.y + to.y) / 2}, to}; }

const std::array<Glyph, 10>& glyphs() {
  static const std::array<Glyph, 10> kGlyphs{{
      {Curve{{{.50, .10}, {.80, .10}, {.80, .50}}}, Curve{{{.80, .50}, {.80, .90}, {.50, .90}}},
       Curve{{{.50, .90}, {.20, .90}, {.20, .50}}}, Curve{{{.20, .50}, {.20, .10}, {.50, .10}}}},
      {line({.35, .26}, {.52, .10}), line({.52, .10}, {.52, .90})},
      {Curve{{{.25, .30}, {.25, .10}, {.50, .10}}}, Curve{{{.50, .10}, {.78, .10}, {.75, .35}}},
       Curve{{{.75, .35}, {.70, .60}, {.22, .90}}}, line({.22, .90}, {.80, .90})},
      {Curve{{{.25, .18}, {.50, .02}, {.68, .18}}}, Curve{{{.68, .18}, {.80, .42}, {.42, .48}}},
       Curve{{{.42, .48}, {.85, .50}, {.75, .75}}}, Curve{{{.75, .75}, {.60, 1.0}, {.22, .82}}}},
      {line({.62, .10}, {.20, .62}), line({.20, .62}, {.82, .62}), line({.64, .35}, {.64, .92})},
      {line({.75, .10}, {.32, .10}), line({.32, .10}, {.28, .46}),
       Curve{{{.28, .46}, {.75, .35}, {.76, .66}}}, Curve{{{.76, .66}, {.72, .98}, {.24, .84}}}},
      {Curve{{{.68, .10}, {.28, .30}, {.26, .65}}}, Curve{{{.26, .65}, {.26, .92}, {.50, .92}}},
       Curve{{{.50, .92}, {.76, .90}, {.74, .68}}}, Curve{{{.74, .68}, {.68, .45}, {.27, .62}}}},
      {line({.22, .12}, {.78, .12}), Curve{{{.78, .12}, {.50, .45}, {.42, .90}}}},
      {Curve{{{.50, .48}, {.24, .42}, {.28, .26}}}, Curve{{{.28, .26}, {.34, .08}, {.50, .10}}},
       Curve{{{.50, .10}, {.74, .10}, {.72, .28}}}, Curve{{{.72, .28}, {.70, .42}, {.50, .48}}},
       Curve{{{.50, .48}, {.20, .56}, {.24, .74}}}, Curve{{{.24, .74}, {.30, .92}, {.50, .90}}},
       Curve{{{.50, .90}, {.78, .90}, {.76, .72}}}, Curve{{{.76, .72}, {.74, .54}, {.50, .48}}}},
      {Curve{{{.32, .90}, {.72, .70}, {.74, .35}}}, Curve{{{.74, .35}, {.74, .08}, {.50, .08}}},
       Curve{{{.50, .08}, {.24, .10}, {.26, .32}}}, Curve{{{.26, .32}, {.32, .55}, {.73, .38}}}},
  }};
  return kGlyphs;
}

/// From the glyph's square to pixels: rotated, slanted, stretched and moved about the middle.
struct Affine {
  double xx, xy, yx, yy, x0, y0;

  Point operator()(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    return {x0 + xx * x + xy * y, y0 + yx * x + yy * y};
  }
};

Affine draw_affine(Draws& draws) {
  constexpr double kMiddle = kDigitSide / 2.0;
  const double turn = draws.uniform(-0.2, 0.2);
  const double slant = draws.uniform(-0.25, 0.25);
  const double width = draws.uniform(17, 23);
  const double height = draws.uniform(19, 24);
  return {width,  -(turn + slant) * height,       turn * width,
          height, kMiddle + draws.uniform(-2, 2), kMiddle + draws.uniform(-2, 2)};
}

Point bezier(const Curve& c, double t) {
  const double s = 1 - t;
  return {s * s * c[0].x + 2 * s * t * c[1].x + t * t * c[2].x,
          s * s * c[0].y + 2 * s * t * c[1].y + t * t * c[2].y};
}

/// A glyph's curves become polylines in pixels: runs of kSteps + 1 points.
constexpr std::size_t kSteps = 6;

std::vector<Point> trace(const Glyph& glyph, Draws& draws) {
  constexpr double kTremble = 0.03;
  const Affine affine = draw_affine(draws);
  std::vector<Point> points;
  Point last{-1, -1};  // a curve that continues another one moves with it
  Point moved_last{};
  for (Curve curve : glyph) {
    const Curve still = curve;
    for (Point& point : curve) {
      point.x += draws.uniform(-kTremble, kTremble);
      point.y += draws.uniform(-kTremble, kTremble);
    }
    if (still[0].x == last.x && still[0].y == last.y) curve[0] = moved_last;
    last = still[2];
    moved_last = curve[2];
    for (std::size_t step = 0; step <= kSteps; ++step) {
      points.push_back(affine(bezier(curve, static_cast<double>(step) / kSteps)));
    }
  }
  return points;
}

double squared_distance(Point p, Point a, Point b) {
  const Point along{b.x - a.x, b.y - a.y};
  const double length2 = along.x * along.x + along.y * along.y;
  double t = length2 > 0 ? ((p.x - a.x) * along.x + (p.y - a.y) * along.y) / length2 : 0;
  t = std::clamp(t, 0.0, 1.0);
  const double dx = p.x - (a.x + t * along.x);
  const double dy = p.y - (a.y + t * along.y);
  return dx * dx + dy * dy;
}

double distance_to(const std::vector<Point>& points, Point pixel) {
  double nearest = kDigitSide * kDigitSide;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    if (i % (kSteps + 1) == kSteps) continue;  // the pen is lifted
    nearest = std::min(nearest, squared_distance(pixel, points[i], points[i + 1]));
  }
  return std::sqrt(nearest);
}

}  // namespace

std::vector<std::uint8_t> draw_digit(int digit, Draws& draws) {
  RINGLET_CHECK(digit >= 0 && digit <= 9, "[draw_digit] digit ", digit);
  const std::vector<Point> points = trace(glyphs()[static_cast<std::size_t>(digit)], draws);
  const double radius = draws.uniform(0.8, 1.9);
  const double ink = draws.uniform(0.75, 1);
  const double noise = draws.uniform(0, 0.12);
  std::vector<std::uint8_t> pixels(kDigitSide * kDigitSide);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const Point pixel{static_cast<double>(i % kDigitSide) + 0.5,
                      static_cast<double>(i / kDigitSide) + 0.5};
    double value = ink * std::clamp(radius + 0.5 - distance_to(points, pixel), 0.0, 1.0);
    value += noise * (draws.uniform(-1, 1) + draws.uniform(-1, 1));
    if (draws.chance(0.005)) value = draws.uniform();  // dust
    pixels[i] = static_cast<std::uint8_t>(255 * std::clamp(value, 0.0, 1.0) + 0.5);
  }
  return pixels;
}

}  // namespace ringlet::train
