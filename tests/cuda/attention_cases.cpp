#include "attention_cases.h"

#include <doctest/doctest.h>

#include <cmath>

#include "attention_bounds.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/relative_position.h"

namespace ringlet {

std::int64_t AttentionCase::tokens() const {
  std::int64_t sum = 0;
  for (std::int32_t n : lengths) sum += n;
  return sum;
}

AttentionInputs inputs_of(const AttentionCase& c) {
  const DefaultDeviceGuard here(Device{});
  const GeneratorGuard guard({.seed = 5});
  const auto sentences = static_cast<std::int64_t>(c.lengths.size());
  const DType wide = c.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<std::int32_t> ends{0}, ids;
  for (std::int32_t n : c.lengths) {
    ends.push_back(ends.back() + n);
    ids.push_back(7 + 3 * static_cast<std::int32_t>(ids.size()));
  }
  AttentionInputs in;
  in.qkv = normal({c.tokens(), 3 * c.heads * c.size}, 0, 1, DType::f64).to(c.dtype);
  in.grad = normal({c.tokens(), c.heads * c.size}, 0, 1, DType::f64).to(c.dtype);
  in.cu_seqlens = tensor(ends, {sentences + 1});
  in.options.heads = c.heads;
  if (c.biased) in.options.relative_bias = normal({32, c.heads}, 0, 1, wide);
  in.options.dropout = {.p = c.p, .seed = 8, .step = 3, .site = 2};
  in.options.sentence_ids = tensor(ids, {sentences});
  if (!c.attended.empty()) in.options.lengths = tensor(c.attended, {sentences});
  return in;
}

AttentionResults by_op(const AttentionInputs& in) {
  AttentionResults results;
  const auto forward = attention(in.qkv, in.cu_seqlens, in.options);
  results.out = forward.out;
  results.lse = forward.lse;
  GradientSink sink;
  if (in.options.relative_bias)
    sink.out = results.grad_bias =
        full(in.options.relative_bias.shape(), 77, forward.lse.dtype(), in.qkv.device());
  results.grad_qkv = attention_backward(in.grad, in.qkv, forward, in.cu_seqlens, in.options, sink);
  return results;
}

namespace {

// A result with bound 0 must be exactly 0.
double worst(const Tensor& x, const Tensor& exact, const Values& bounds) {
  const Values a = x.to_vector<double>(), b = exact.to_vector<double>();
  double ratio = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]);
    if (!(error <= bounds[i])) ratio = std::max(ratio, bounds[i] > 0 ? error / bounds[i] : 1e30);
    if (error > 0 && bounds[i] > 0) ratio = std::max(ratio, error / bounds[i]);
    if (std::isnan(a[i])) return a[i];
  }
  return ratio;
}

}  // namespace

AttentionErrors errors_of(const AttentionCase& c, const AttentionInputs& in,
                          const AttentionResults& results, double weights) {
  AttentionInputs wide = in;
  wide.qkv = in.qkv.to(DType::f64);
  wide.grad = in.grad.to(DType::f64);
  if (c.biased) wide.options.relative_bias = in.options.relative_bias.to(DType::f64);
  const AttentionResults exact = by_op(wide);
  // In f64 the reference has the same error.
  const double unit = c.dtype == DType::f64 ? 0x1p-52 : 0x1p-24;
  const Values of_bias(static_cast<std::size_t>(kRelativeBuckets * c.heads));
  Bounds bounds{c,
                wide.qkv.to_vector<double>(),
                wide.grad.to_vector<double>(),
                c.biased ? wide.options.relative_bias.to_vector<double>() : Values(),
                exact.lse.to_vector<double>(),
                unit,
                weights,
                c.dtype == DType::bf16 ? 0x1p-8 : unit,
                Roundings(c, weights > 0),
                Values(static_cast<std::size_t>(exact.out.numel())),
                Values(static_cast<std::size_t>(exact.lse.numel())),
                Values(static_cast<std::size_t>(exact.grad_qkv.numel())),
                of_bias,
                of_bias,
                of_bias};
  const auto ids = in.options.sentence_ids.to_vector<std::int32_t>();
  std::int64_t first = 0;
  for (std::size_t s = 0; s < c.lengths.size(); first += c.lengths[s++])
    for (std::int64_t head = 0; head < c.heads; ++head)
      bounds.add_sentence(first, c.lengths[s], c.attended.empty() ? c.lengths[s] : c.attended[s],
                          static_cast<std::uint32_t>(ids[s]), head, in.options.dropout);
  bounds.finish();
  return {worst(results.out, exact.out, bounds.out), worst(results.lse, exact.lse, bounds.lses),
          worst(results.grad_qkv, exact.grad_qkv, bounds.grad_qkv),
          c.biased ? worst(results.grad_bias, exact.grad_bias, bounds.grad_bias) : 0};
}

void check_errors(const AttentionErrors& errors) {
  CHECK(errors.out <= 1);
  CHECK(errors.lse <= 1);
  CHECK(errors.grad_qkv <= 1);
  CHECK(errors.grad_bias <= 1);
}

AttentionInputs on(Device device, const AttentionInputs& in) {
  AttentionOptions options = in.options;
  for (Tensor* x : {&options.relative_bias, &options.sentence_ids, &options.lengths})
    if (*x) *x = x->to(device);
  return {in.qkv.to(device), in.grad.to(device), in.cu_seqlens.to(device), options};
}

void check_on_device(const AttentionCase& c) {
  CAPTURE(name(c.dtype));
  CAPTURE(c.size);
  CAPTURE(c.p);
  CAPTURE(c.biased);
  const AttentionInputs in = inputs_of(c);
  // Tensor cores take bf16, and round the weights to it.
  const double weights = c.dtype == DType::bf16 ? 0x1p-8 : 0;
  check_errors(errors_of(c, in, by_op(on(default_device(), in)), weights));
}

}  // namespace ringlet
