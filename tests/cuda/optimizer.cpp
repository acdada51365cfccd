// The device's arithmetic of an optimizer's step, run on the host and compared with the CPU's.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/cuda/optimizer_step.h"
#include "ringlet/cuda/update_tiles.h"

using namespace ringlet;

namespace {

// The portable instruction set rounds a b + c twice.
bool rounds_as_devices_do() { return cpu::isa() != cpu::Isa::portable; }

template <class T>
std::vector<T> step_values(std::int64_t n, double phase) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(std::sin(phase + static_cast<double>(i) * 0.7310585));
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const Tensor& b) {
  return std::memcmp(a.data(), b.bytes(), a.size() * sizeof(T)) == 0;
}

/// Some with arbitrary edges, some longer than a tile, and unchanged elements between them.
std::vector<StepSegment> segments_of(std::int64_t n) {
  std::vector<StepSegment> segments;
  std::int64_t begin = 1;
  for (const std::int64_t length : {1, 5, 96, 3, 9000, 128, 31})
    if (begin + length <= n) {
      segments.push_back({begin, begin + length, length % 2});
      begin += length + (length == 3 ? 7 : 0);
    }
  return segments;
}

/// As in the kernel's blocks: body(segment, element), once for each visit, packs as a whole.
template <class T, class Body>
void by_tiles(const T* run, std::int64_t n, const StepSegments& segments, Body&& body) {
  const cuda::UpdateTiles tiles{cuda::vector_span(n, sizeof(T), run)};
  for (std::int64_t tile = 0; tile < tiles.count(); ++tile)
    for_segments(segments, tiles.begin(tile), tiles.end(tile),
                 [&](std::int64_t segment, std::int64_t begin, std::int64_t end) {
                   const cuda::VectorSpan part = tiles.run.part(begin, end);
                   for (std::int64_t i = 0; i < part.packs; ++i)
                     for (int k = 0; k < part.pack; ++k) body(segment, begin + part.begin(i) + k);
                   for (std::int64_t i = 0; i < part.singles(); ++i)
                     body(segment, begin + part.single(i));
                 });
}

template <class T>
void check_adamw(std::int64_t n) {
  auto p = step_values<T>(n, 1), g = step_values<T>(n, 2), m = step_values<T>(n, 3);
  auto v = step_values<T>(n, 4);
  for (T& x : v) x *= x;
  const Tensor grad = tensor(g, {n});
  Tensor param = tensor(p, {n}), exp_avg = tensor(m, {n}), exp_avg_sq = tensor(v, {n});
  const std::vector<StepSegment> segments = segments_of(n);
  const Tensor table = segment_table(segments);
  for (std::int64_t step = 1; step <= 4; ++step) {
    const AdamWConstants how{.weight_decay = 0.1};
    std::vector<double> scalars;  // a different update for each segment
    for (std::size_t i = 0; i < segments.size(); ++i)
      for (const double x : adamw_scalars(0.01, step + static_cast<std::int64_t>(i % 3)))
        scalars.push_back(x);
    const double grad_scale = 0.37;
    StepScalars given = step_scalars(scalars, grad_scale);
    given.segments = table;
    adamw_(param, grad, exp_avg, exp_avg_sq, given, how);
    AdamWArgs args{};
    args.segments = {segments.data(), static_cast<std::int64_t>(segments.size())};
    args.scalars = scalars.data();
    args.grad_scale = &grad_scale;
    args.beta1 = how.beta1;
    args.beta2 = how.beta2;
    args.eps = how.eps;
    args.weight_decay = how.weight_decay;
    by_tiles(p.data(), n, args.segments, [&](std::int64_t segment, std::int64_t element) {
      const auto i = static_cast<std::size_t>(element);
      cuda::adamw_element(cuda::adamw_factors<T>(args, segment), p[i], g[i], m[i], v[i]);
    });
  }
  CHECK(same_bits(p, param));
  CHECK(same_bits(m, exp_avg));
  CHECK(same_bits(v, exp_avg_sq));
}

template <class T>
void check_sgd(std::int64_t n, double momentum, bool nesterov) {
  auto p = step_values<T>(n, 5), g = step_values<T>(n, 6), b = std::vector<T>(p.size());
  Tensor param = tensor(p, {n}), buffer = momentum != 0 ? tensor(b, {n}) : Tensor();
  const SGDConstants how{.momentum = momentum, .weight_decay = 0.2, .nesterov = nesterov};
  const double grad_scale = 3;
  const std::vector<StepSegment> segments = segments_of(n);
  std::vector<double> rates;
  for (std::size_t i = 0; i < segments.size(); ++i)
    rates.push_back(0.1 / static_cast<double>(i + 1));
  StepScalars given = step_scalars(rates, grad_scale);
  given.segments = segment_table(segments);
  for (int step = 0; step < 3; ++step) {
    sgd_(param, tensor(g, {n}), buffer, given, how);
    SGDArgs args{};
    args.momentum_buffer = momentum != 0 ? b.data() : nullptr;
    args.segments = {segments.data(), static_cast<std::int64_t>(segments.size())};
    args.scalars = rates.data();
    args.momentum = how.momentum;
    args.weight_decay = how.weight_decay;
    args.grad_scale = &grad_scale;
    args.nesterov = how.nesterov;
    by_tiles(p.data(), n, args.segments, [&](std::int64_t segment, std::int64_t element) {
      const auto i = static_cast<std::size_t>(element);
      cuda::sgd_element(cuda::sgd_factors<T>(args, segment), p[i], g[i], b[i]);
    });
  }
  CHECK(same_bits(p, param));
  if (momentum != 0) CHECK(same_bits(b, buffer));
}

// As in the kernel's warps.
template <class T>
std::vector<double> norms_by_lanes(const std::vector<T>& x) {
  std::vector<double> out;
  const auto n = static_cast<std::int64_t>(x.size());
  for (std::int64_t begin = 0; begin < n; begin += kNormBlock) {
    const auto count = static_cast<int>(n - begin < kNormBlock ? n - begin : kNormBlock);
    double lanes[cuda::kNormLanes];
    for (int lane = 0; lane < cuda::kNormLanes; ++lane)
      lanes[lane] = cuda::norm_of_lane(x.data() + begin, count, lane,
                                       [](T value) { return static_cast<double>(value); });
    for (int fold = 0; fold < cuda::kNormFolds; ++fold) {
      double next[cuda::kNormLanes];
      for (int lane = 0; lane < cuda::kNormLanes; ++lane)
        next[lane] = lanes[lane] + lanes[lane ^ cuda::norm_fold(fold)];
      std::memcpy(lanes, next, sizeof(lanes));
    }
    out.push_back(lanes[0]);
  }
  return out;
}

}  // namespace

TEST_CASE("cuda: a step of AdamW and of SGD has the CPU's bits") {
  if (!rounds_as_devices_do()) return;
  check_adamw<float>(9300);
  check_adamw<double>(1001);
  for (double momentum : {0.0, 0.9}) {
    check_sgd<float>(9300, momentum, false);
    check_sgd<double>(1001, momentum, false);
  }
  check_sgd<float>(1001, 0.9, true);
}

TEST_CASE("cuda: tiles of a run take each element of a segment once, in packs but at its edges") {
  alignas(16) static const float memory[4] = {};
  for (const std::int64_t n : {3, 4096, 4097, 9300, 20000})
    for (const std::int64_t skew : {0, 1, 3}) {
      CAPTURE(n);
      CAPTURE(skew);
      const float* const run = memory + skew;
      const std::vector<StepSegment> segments = segments_of(n);
      const StepSegments table{segments.data(), static_cast<std::int64_t>(segments.size())};
      std::vector<std::int64_t> taken(static_cast<std::size_t>(n), -1), expected = taken;
      for (std::size_t s = 0; s < segments.size(); ++s)
        for (std::int64_t i = segments[s].begin; i < segments[s].end; ++i)
          expected[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(s);
      by_tiles(run, n, table, [&](std::int64_t segment, std::int64_t element) {
        std::int64_t& by = taken.at(static_cast<std::size_t>(element));
        CHECK(by == -1);
        by = segment;
      });
      CHECK(taken == expected);

      const cuda::UpdateTiles tiles{cuda::vector_span(n, sizeof(float), run)};
      CHECK(tiles.count() <= n / cuda::kUpdateTile + 2);
      for (std::int64_t tile = 0; tile < tiles.count(); ++tile)
        for_segments(table, tiles.begin(tile), tiles.end(tile),
                     [&](std::int64_t segment, std::int64_t begin, std::int64_t end) {
                       const StepSegment& own = segments[static_cast<std::size_t>(segment)];
                       const bool inside = own.begin < begin && end < own.end;
                       CHECK(tiles.run.part(begin, end).singles() < (inside ? 1 : 7));
                     });
    }
}

TEST_CASE("cuda: squared norms have the CPU's bits, short blocks too") {
  for (std::int64_t n : {1, 5, 31, 33, 100, 4095, 4096, 4097, 3 * 4096 + 77}) {
    CAPTURE(n);
    const auto f32 = step_values<float>(n, 7);
    CHECK(squared_norm_blocks(tensor(f32, {n})).to_vector<double>() == norms_by_lanes(f32));
    if (!rounds_as_devices_do()) continue;  // squares of floats are exact doubles
    const auto f64 = step_values<double>(n, 7);
    CHECK(squared_norm_blocks(tensor(f64, {n})).to_vector<double>() == norms_by_lanes(f64));
  }
}
