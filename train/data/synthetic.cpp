#include "ringlet/train/data/synthetic.h"
#include "ringlet/core/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <unordered_set>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/data/draws.h"
#include "ringlet/train/data/scenes.h"

namespace ringlet::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigitSide = 28;

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

/// A drawing of `digit` (0 to 9): its strokes under a random affine map, with trembling control
/// points. Pen width, ink strength and pixel noise are random, too. 28 x 28, row-major, 255 is full
/// ink. Uses only +, -, *, / and sqrt, which IEEE 754 rounds exactly: the same pixels everywhere.
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

enum Stream : std::uint64_t { kNliStream = 1, kStsStream, kDigitStream, kDigitOrder };

constexpr std::array<const char*, 3> kLabelNames{"entailment", "neutral", "contradiction"};

// The grammar makes many millions of sentences; sizes beyond this would be repetitive.
constexpr std::size_t kMaxPairs = 1'000'000;

void check_size(std::size_t size) {
  if (size > kMaxPairs) {
    fail_input("synthetic data: expected at most ", kMaxPairs, " pairs, found ", size);
  }
}

/// A premise that is not the same text as the hypothesis.
std::string write_premise(const Scene& hypothesis, const std::string& text, NliLabel label,
                          std::size_t said, Draws& draws) {
  while (true) {
    std::string premise = describe(draw_premise(hypothesis, label, said, draws), draws);
    if (premise != text) return premise;
  }
}

std::string nli_lines(const std::vector<TextPair>& pairs) {
  std::string text;
  for (const TextPair& pair : pairs) {
    Json line;
    line["gold_label"] = kLabelNames[static_cast<std::size_t>(pair.target)];
    line["sentence1"] = pair.sentence1;
    line["sentence2"] = pair.sentence2;
    text += line.dump() + "\n";
  }
  return text;
}

/// No sentence of the grammar contains a quote.
std::string sts_lines(const std::vector<TextPair>& pairs) {
  std::string text;
  for (const TextPair& pair : pairs) {
    text += fmt::format("\"{}\",\"{}\",{:.1f}\n", pair.sentence1, pair.sentence2, pair.target);
  }
  return text;
}

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

void add_digits(NamedTexts& files, const std::string& name, Digits digits) {
  const IdxArray images{{digits.count, digits.height, digits.width}, std::move(digits.pixels)};
  const IdxArray labels{{digits.count}, std::move(digits.labels)};
  files.emplace_back("digits-" + name + "-images-idx3-ubyte", idx_bytes(images));
  files.emplace_back("digits-" + name + "-labels-idx1-ubyte", idx_bytes(labels));
}

void write_all(const fs::path& folder, const NamedTexts& files) {
  std::vector<std::unique_ptr<AtomicFile>> open;
  for (const auto& [name, text] : files) {
    open.push_back(std::make_unique<AtomicFile>(folder / name));
    open.back()->write(text);
    open.back()->sync();
  }
  for (const auto& file : open) file->commit();
}

}  // namespace

TextSplits make_nli(std::uint64_t seed, std::size_t train, std::size_t dev) {
  check_size(train + dev);
  Draws draws(mix64(seed, kNliStream));
  std::unordered_set<std::string> seen;
  TextSplits splits;
  // A triple never lies in both splits: dev starts with a new hypothesis.
  for (const auto& [pairs, size] : {std::pair(&splits.train, train), {&splits.dev, dev}}) {
    while (pairs->size() < size) {
      const Scene hypothesis = draw_scene(1 + draws.index(2), draws);
      const std::string text = describe(hypothesis, draws);
      if (!seen.insert(text).second) continue;
      const std::size_t said = 2 + draws.index(2);
      for (const NliLabel label : {kEntailment, kNeutral, kContradiction}) {
        if (pairs->size() == size) break;
        pairs->push_back({write_premise(hypothesis, text, label, said, draws), text,
                          static_cast<double>(label)});
      }
    }
  }
  return splits;
}

TextSplits make_sts(std::uint64_t seed, std::size_t train, std::size_t dev) {
  check_size(train + dev);
  Draws draws(mix64(seed, kStsStream));
  std::unordered_set<std::string> seen;
  TextSplits splits;
  while (splits.dev.size() < dev || splits.train.size() < train) {
    const Scene a = draw_scene(1 + draws.index(3), draws);
    // A fifth of the pairs is unrelated; the rest differ by anything from nothing to everything.
    const Scene b = draws.chance(0.2) ? draw_scene(1 + draws.index(3), draws)
                                      : draw_variation(a, draws.uniform(), draws);
    TextPair pair{describe(a, draws), describe(b, draws), std::round(10 * sts_score(a, b)) / 10};
    if (pair.sentence1 == pair.sentence2) continue;
    if (!seen.insert(pair.sentence1 + pair.sentence2).second) continue;
    (splits.train.size() < train ? splits.train : splits.dev).push_back(std::move(pair));
  }
  return splits;
}

Digits make_digits(std::uint64_t seed, std::size_t split, std::size_t count) {
  Digits digits{count, kDigitSide, kDigitSide, {}, {}};
  const Permutation order(count, mix64(seed, kDigitOrder, split));
  for (std::size_t i = 0; i < count; ++i) {
    Draws draws(mix64(seed, kDigitStream, split, i));
    const int digit = static_cast<int>(order(i) % 10);
    const std::vector<std::uint8_t> drawn = draw_digit(digit, draws);
    digits.pixels.insert(digits.pixels.end(), drawn.begin(), drawn.end());
    digits.labels.push_back(static_cast<std::uint8_t>(digit));
  }
  return digits;
}

void write_synthetic(const fs::path& folder, std::uint64_t seed, const SyntheticSizes& sizes) {
  const TextSplits nli = make_nli(seed, sizes.nli_train, sizes.nli_dev);
  const TextSplits sts = make_sts(seed, sizes.sts_train, sizes.sts_dev);
  NamedTexts files{{"nli-train.jsonl", nli_lines(nli.train)},
                   {"nli-dev.jsonl", nli_lines(nli.dev)},
                   {"sts-train.csv", sts_lines(sts.train)},
                   {"sts-dev.csv", sts_lines(sts.dev)}};
  add_digits(files, "train", make_digits(seed, 0, sizes.digits_train));
  add_digits(files, "test", make_digits(seed, 1, sizes.digits_test));
  make_folders(folder);
  write_all(folder, files);
}

}  // namespace ringlet::train
