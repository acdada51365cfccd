// Bounds of the rounding error of each result of attention, relative to its definition in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "attention_rounding.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/relative_position.h"

namespace ringlet {

// The bounds of every result, sentence by sentence and head by head.
struct Bounds {
  const AttentionCase& c;
  const Values qkv, grad, bias, lse;
  const double unit, weights, result;  // roundoffs of arithmetic, of P and dS, of the output
  const Roundings roundings;
  Values out, lses, grad_qkv, grad_bias;
  Values squares, tiles;  // of grad_bias: squares of roundings, and |sums| of tiles

  // A query, and its keys' scores, P and gradients of P. of_*: the squares of their errors.
  struct Row {
    std::int64_t first, query, attended, head;
    Values s, p, g, kept, of_s, of_g;
    double mean = 0, of_lse = 0, of_mean = 0;

    explicit Row(std::size_t keys)
        : s(keys), p(keys), g(keys), kept(keys), of_s(keys), of_g(keys) {}
    template <class Body>
    void each(Body body) const {
      for (std::int64_t k = 0; k < attended; ++k) body(static_cast<std::size_t>(k), first + k);
    }
    std::size_t bucket(std::int64_t key) const {
      return static_cast<std::size_t>(relative_position_bucket(key - first - query));
    }
  };

  double at(std::int64_t token, int part, std::int64_t head, std::int64_t i) const {
    return qkv[index(token, part, head, i)];
  }
  std::size_t index(std::int64_t token, int part, std::int64_t head, std::int64_t i) const {
    return static_cast<std::size_t>(((token * 3 + part) * c.heads + head) * c.size + i);
  }
  std::size_t out_index(std::int64_t token, std::int64_t head, std::int64_t i) const {
    return static_cast<std::size_t>((token * c.heads + head) * c.size + i);
  }
  std::size_t bias_index(std::size_t bucket, std::int64_t head) const {
    return bucket * static_cast<std::size_t>(c.heads) + static_cast<std::size_t>(head);
  }

  void add_sentence(std::int64_t first, std::int64_t length, std::int64_t attended,
                    std::uint32_t id, std::int64_t head, const DropoutKey& key) {
    Values sums(kRelativeBuckets), sizes(kRelativeBuckets);  // of a tile of 16 queries
    for (std::int64_t q = 0; q < length; ++q) {
      Row row(static_cast<std::size_t>(attended));
      row.first = first, row.query = q, row.attended = attended, row.head = head;
      fill_scores(row);
      fill_dropout(row, id, key);
      add_softmax(row);
      add_gradients(row, sums, sizes);
      if (q % 16 == 15 || q + 1 == length) add_tile(row, sums, sizes);
    }
  }

  void fill_scores(Row& row) const {
    const double scale = 1 / std::sqrt(static_cast<double>(c.size));
    const std::int64_t query = row.first + row.query;
    row.each([&](std::size_t j, std::int64_t token) {
      Product qk{roundings}, gv{roundings};
      for (std::int64_t i = 0; i < c.size; ++i) {
        qk.add(i, at(query, 0, row.head, i) * at(token, 1, row.head, i) * scale);
        gv.add(i, grad[out_index(query, row.head, i)] * at(token, 2, row.head, i));
      }
      const double b = c.biased ? bias[bias_index(row.bucket(token), row.head)] : 0;
      row.s[j] = qk.sum + b;
      row.g[j] = gv.sum;
      // The scale is a product of two rounded numbers, and so is the bias times log2 e.
      row.of_s[j] =
          square(unit) * (qk.squares + 3 * square(qk.sum) + 2 * square(b) + square(row.s[j]));
      row.of_g[j] = square(unit) * (gv.squares + 2 * square(gv.sum));
    });
  }

  void fill_dropout(Row& row, std::uint32_t id, const DropoutKey& key) const {
    row.each([&](std::size_t j, std::int64_t) {
      const PhiloxBlock block =
          philox<7>({{id, static_cast<std::uint32_t>(row.head),
                      static_cast<std::uint32_t>(row.query / 16 * 8 + row.query % 8),
                      static_cast<std::uint32_t>(j / 4)}},
                    derive_key(key.seed, key.step, key.site));
      const double half = block.word[j % 4] >> (row.query % 16 < 8 ? 0 : 16) & 0xffffu;
      const double dropped = std::round(c.p * 0x1p16);
      row.kept[j] = half >= dropped ? 0x1p16 / (0x1p16 - dropped) : 0;
      row.g[j] *= row.kept[j];
      row.of_g[j] *= square(row.kept[j]);
    });
  }

  // The log-sum-exp has its terms' relative errors times P, plus those of its sum and logarithm.
  void add_softmax(Row& row) {
    const auto place = static_cast<std::size_t>(row.head * c.tokens() + row.first + row.query);
    const double own = lse[place], top = *std::max_element(row.s.begin(), row.s.end());
    row.of_lse = square(unit) * (roundings.sum(static_cast<double>(row.attended)) +
                                 4 * square(own - top) + 3 * square(own));
    row.each([&](std::size_t j, std::int64_t) {
      row.p[j] = std::exp(row.s[j] - own);
      row.mean += row.p[j] * row.g[j];
      // Its rescaling from its span's maximum, and from there to the last one.
      row.of_lse +=
          square(row.p[j]) * (row.of_s[j] + square(unit) * (kExp + 2 * square(top - row.s[j])));
      row.of_s[j] += square(unit) * (square(row.s[j] - own) + 2 * square(own) + kExp);
    });
    lses[place] = kRoots * std::sqrt(row.of_lse);
  }

  // The mean is the product of the output, which has its weights' errors, and its gradient.
  void add_mean(Row& row) const {
    const double adds = roundings.sum(static_cast<double>(row.attended)) + 4;
    double dot = 0;
    for (std::int64_t i = 0; i < c.size; ++i) {
      double y = 0, size = 0;
      row.each([&](std::size_t j, std::int64_t token) {
        const double term = row.p[j] * row.kept[j] * at(token, 2, row.head, i);
        y += term, size += std::abs(term);
      });
      const double g = grad[out_index(row.first + row.query, row.head, i)];
      dot += std::abs(g * y);
      row.of_mean += square(g * y * result) + square(unit * g * size) * adds;
    }
    row.of_mean += square(unit * dot) * static_cast<double>(c.size);
    row.each([&](std::size_t j, std::int64_t) {
      row.of_mean += square(row.p[j] * row.g[j]) * (row.of_s[j] + square(unit) + square(weights));
    });
    row.of_mean = kShares * (row.of_mean + square(row.mean) * row.of_lse);
  }

  void add_gradients(Row& row, Values& sums, Values& sizes) {
    add_mean(row);
    Values of_bucket(kRelativeBuckets), ds_of(of_bucket), p_of(of_bucket);
    row.each([&](std::size_t j, std::int64_t token) {
      const double ds = row.p[j] * (row.g[j] - row.mean);
      const double own =
          square(ds) * (row.of_s[j] + 2 * square(unit)) + square(row.p[j]) * row.of_g[j];
      const std::size_t b = row.bucket(token);
      of_bucket[b] += own, ds_of[b] += ds, p_of[b] += row.p[j];
      sums[b] += ds, sizes[b] += std::abs(ds);
      const double common = square(ds) * row.of_lse + square(row.p[j]) * row.of_mean;
      add_products(row, token, row.p[j] * row.kept[j], row.of_s[j] + row.of_lse, ds,
                   std::sqrt(kShares * (own + common)));
    });
    for (std::size_t b = 0; b < of_bucket.size(); ++b)
      squares[bias_index(b, row.head)] +=
          kShares * (of_bucket[b] + square(ds_of[b]) * row.of_lse + square(p_of[b]) * row.of_mean);
  }

  // The part of a pair in the products with P and with the gradient of its score.
  void add_products(const Row& row, std::int64_t token, double p, double of_p, double ds,
                    double of_ds) {
    const double scale = 1 / std::sqrt(static_cast<double>(c.size));
    const std::int64_t query = row.first + row.query, head = row.head;
    const double stored = weights + (static_cast<double>(row.attended) + 4) * unit + result;
    const double for_p = p * (kRoots * std::sqrt(2 * of_p) + stored);
    const double for_ds = kRoots * of_ds + std::abs(ds) * stored;
    for (std::int64_t i = 0; i < c.size; ++i) {
      out[out_index(query, head, i)] += for_p * std::abs(at(token, 2, head, i));
      grad_qkv[index(token, 2, head, i)] += for_p * std::abs(grad[out_index(query, head, i)]);
      grad_qkv[index(query, 0, head, i)] += for_ds * scale * std::abs(at(token, 1, head, i));
      grad_qkv[index(token, 1, head, i)] += for_ds * scale * std::abs(at(query, 0, head, i));
    }
  }

  // A tile's sums: 16 queries per distance, far ones of several spans, the distances of a bucket.
  void add_tile(const Row& row, Values& sums, Values& sizes) {
    const double adds = 16 + static_cast<double>(row.attended) / 16 + 69;
    for (std::size_t b = 0; b < sums.size(); ++b) {
      squares[bias_index(b, row.head)] += adds * square(unit * sizes[b]);
      tiles[bias_index(b, row.head)] += std::abs(sums[b]);
      sums[b] = sizes[b] = 0;
    }
  }
  void finish() {
    const double adds =
        static_cast<double>(c.tokens()) / 16 + static_cast<double>(c.lengths.size());
    for (std::size_t i = 0; i < grad_bias.size(); ++i)
      grad_bias[i] = kRoots * std::sqrt(squares[i] + adds * square(unit * tiles[i]));
  }
};

}  // namespace ringlet
