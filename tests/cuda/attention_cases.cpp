#include "attention_cases.h"

#include <cmath>

#include "ringlet/core/ops/random.h"

namespace ringlet {

std::int64_t AttentionCase::tokens() const {
  std::int64_t sum = 0;
  for (std::int32_t n : lengths) sum += n;
  return sum;
}

AttentionInputs inputs_of(const AttentionCase& c) {
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

AttentionResults by_cpu(const AttentionInputs& in) {
  AttentionResults results;
  const auto forward = attention(in.qkv, in.cu_seqlens, in.options);
  results.out = forward.out;
  results.lse = forward.lse;
  Accumulator accumulator;
  if (in.options.relative_bias)
    accumulator.out = results.grad_bias =
        zeros(in.options.relative_bias.shape(), forward.lse.dtype());
  results.grad_qkv =
      attention_backward(in.grad, in.qkv, forward.lse, in.cu_seqlens, in.options, accumulator);
  return results;
}

namespace {

using Values = std::vector<double>;

// The bounds of every result, sentence by sentence and head by head.
struct Bounds {
  const AttentionCase& c;
  const Values qkv, grad, bias, lse;
  const double unit, weights, result;  // roundoffs of arithmetic, of P and dS, of what is stored
  Values out, lses, grad_qkv, grad_bias;

  double at(std::int64_t token, int part, std::int64_t head, std::int64_t i) const {
    return qkv[index(token, part, head, i)];
  }
  std::size_t index(std::int64_t token, int part, std::int64_t head, std::int64_t i) const {
    return static_cast<std::size_t>(((token * 3 + part) * c.heads + head) * c.size + i);
  }
  std::size_t out_index(std::int64_t token, std::int64_t head, std::int64_t i) const {
    return static_cast<std::size_t>((token * c.heads + head) * c.size + i);
  }

  void add_sentence(std::int64_t first, std::int64_t length, std::int64_t attended,
                    std::uint32_t id, std::int64_t head, const DropoutKey& key) {
    const auto n = static_cast<double>(length), d = static_cast<double>(c.size);
    const double scale = 1 / std::sqrt(d), kept_scale = dropout_scale(c.p);
    Values p(static_cast<std::size_t>(attended)), g(p), kept(p), grown(p), of_p(p);
    for (std::int64_t q = 0; q < length; ++q) {
      const double own = lse[static_cast<std::size_t>(head * c.tokens() + first + q)];
      double mean = 0, of_score = 0;
      for (std::int64_t k = 0; k < attended; ++k) {
        const auto j = static_cast<std::size_t>(k);
        double s = 0, size = 0, grad_p = 0, grad_size = 0;
        for (std::int64_t i = 0; i < c.size; ++i) {
          const double a = at(first + q, 0, head, i) * at(first + k, 1, head, i);
          const double b = grad[out_index(first + q, head, i)] * at(first + k, 2, head, i);
          s += a * scale, size += std::abs(a) * scale, grad_p += b, grad_size += std::abs(b);
        }
        if (c.biased) {
          const double b =
              bias[static_cast<std::size_t>(relative_position_bucket(k - q) * c.heads + head)];
          s += b, size += std::abs(b);
        }
        const PhiloxBlock block =
            philox({{id, static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(q),
                     static_cast<std::uint32_t>(k / 4)}},
                   derive_key(key.seed, key.step, key.site));
        kept[j] = block.word[k % 4] >= dropout_threshold(c.p) ? kept_scale : 0;
        p[j] = std::exp(s - own);
        g[j] = grad_p * kept[j];
        grown[j] = grad_size * kept[j] * (d + 4) * unit;
        of_score = std::max(of_score, unit * ((d + 4) * size + 8 + 4 * std::abs(s)));
        mean += p[j] * g[j];
      }
      // P's relative error: its score's, and the log-sum-exp's, which is a mean of such.
      const double of_sum = of_score + unit * (4 * std::abs(own) + n + 8);
      lses[static_cast<std::size_t>(head * c.tokens() + first + q)] = of_sum;
      const double relative = of_score + of_sum;
      double of_mean = 0;
      for (std::size_t j = 0; j < p.size(); ++j)
        of_mean += p[j] * ((relative + n * unit) * std::abs(g[j]) + grown[j]);
      for (std::int64_t k = 0; k < attended; ++k) {
        const auto j = static_cast<std::size_t>(k);
        const double ds = std::abs(p[j] * (g[j] - mean));
        const double of_ds = ds * (relative + 4 * unit) + p[j] * (grown[j] + of_mean);
        const double of_p_used = p[j] * kept[j] * (relative + weights + (n + 4) * unit + result);
        const double of_ds_used = of_ds + ds * (weights + (n + 4) * unit + result);
        for (std::int64_t i = 0; i < c.size; ++i) {
          out[out_index(first + q, head, i)] += of_p_used * std::abs(at(first + k, 2, head, i));
          grad_qkv[index(first + k, 2, head, i)] +=
              of_p_used * std::abs(grad[out_index(first + q, head, i)]);
          grad_qkv[index(first + q, 0, head, i)] +=
              of_ds_used * scale * std::abs(at(first + k, 1, head, i));
          grad_qkv[index(first + k, 1, head, i)] +=
              of_ds_used * scale * std::abs(at(first + q, 0, head, i));
        }
        if (c.biased)
          grad_bias[static_cast<std::size_t>(relative_position_bucket(k - q) * c.heads + head)] +=
              of_ds + ds * unit * static_cast<double>(c.tokens());
      }
    }
  }
};

// A result that must be 0 has no bound and then must be 0.
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
  const AttentionResults exact = by_cpu(wide);
  const double unit = c.dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  Bounds bounds{c,
                wide.qkv.to_vector<double>(),
                wide.grad.to_vector<double>(),
                c.biased ? wide.options.relative_bias.to_vector<double>() : Values(),
                exact.lse.to_vector<double>(),
                unit,
                weights,
                c.dtype == DType::bf16 ? 0x1p-8 : unit,
                Values(static_cast<std::size_t>(exact.out.numel())),
                Values(static_cast<std::size_t>(exact.lse.numel())),
                Values(static_cast<std::size_t>(exact.grad_qkv.numel())),
                Values(static_cast<std::size_t>(32 * c.heads))};
  const auto ids = in.options.sentence_ids.to_vector<std::int32_t>();
  std::int64_t first = 0;
  for (std::size_t s = 0; s < c.lengths.size(); first += c.lengths[s++])
    for (std::int64_t head = 0; head < c.heads; ++head)
      bounds.add_sentence(first, c.lengths[s], c.attended.empty() ? c.lengths[s] : c.attended[s],
                          static_cast<std::uint32_t>(ids[s]), head, in.options.dropout);
  return {worst(results.out, exact.out, bounds.out), worst(results.lse, exact.lse, bounds.lses),
          worst(results.grad_qkv, exact.grad_qkv, bounds.grad_qkv),
          c.biased ? worst(results.grad_bias, exact.grad_bias, bounds.grad_bias) : 0};
}

}  // namespace ringlet
