// Principal component analysis, in the memory of one covariance matrix, and encoders with a
// projection onto the components.
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/core/tensor/tensor.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::train {

/// Leading eigenvectors of the covariance, the largest variance first. The entry of a component
/// with the largest magnitude is positive, as in scikit-learn.
struct PrincipalComponents {
  Tensor components;              // (k, d) f64, orthonormal rows
  std::vector<double> variances;  // (k) along the components, 0 or more
  Tensor mean;                    // (d) f64
  double total_variance = 0;      // along all d

  /// The share of the variance along the components, in [0, 1].
  double kept() const;
};

/// Rows are added in blocks of any size; only their sums are stored.
class Pca {
 public:
  explicit Pca(std::int64_t columns);
  /// `rows` (n, columns) f32 or f64, on a CPU.
  void add(const Tensor& rows);
  std::int64_t rows() const { return rows_; }
  /// The first k components. The covariance divides by rows() - 1. Error unless there are two rows
  /// and k is in 1 to the columns; InputError where a row was not finite, or all rows are equal.
  PrincipalComponents components(std::int64_t k) const;

 private:
  std::int64_t rows_ = 0;
  Tensor sum_;       // (1, d) f64
  Tensor products_;  // (d, d) f64, X'X
};

/// Appends Dense(d, k) with the components as weight, without bias and activation: embeddings keep
/// their mean, as in the example of Sentence Transformers. With `whiten` the mean is subtracted and
/// each component divided by its standard deviation, and Normalize follows. The transformer is
/// shared with `encoder`; truncate_dim is unset. InputError with `whiten` where a component has no
/// variance.
models::SentenceEncoder reduced_encoder(const models::SentenceEncoder& encoder,
                                        const PrincipalComponents& components, bool whiten);

}  // namespace ringlet::train
