// The small model that the drill trains: digits under a data parallel strategy.
#pragma once

#include <memory>

#include "ringlet/autograd/functions.h"
#include "ringlet/nn/layers.h"
#include "ringlet/nn/linear.h"
#include "ringlet/nn/loss.h"
#include "ringlet/train/data/digits.h"

namespace ringlet::drill {

inline constexpr std::size_t kDigits = 600;
inline constexpr std::int64_t kPixels = 28 * 28;
inline constexpr std::int64_t kHiddenUnits = 32;

/// Two linear layers with dropout between.
class Net final : public nn::Layer<Net> {
 public:
  Variable forward(const Tensor& images, const Tensor& positions) {
    const Variable x = autograd::relu((*in_)(Variable(images.view({-1, kPixels}))));  // (N, 32)
    return autograd::log_softmax((*out_)((*dropout_)(x, positions)));                 // (N, 10)
  }
  Variable loss(const train::DigitBatch& batch) {
    return nn::nll_loss((*this)(batch.images, batch.positions), batch.labels);
  }

 private:
  std::shared_ptr<nn::Linear> in_ =
      register_module("in", std::make_shared<nn::Linear>(kPixels, kHiddenUnits));
  std::shared_ptr<nn::Dropout> dropout_ =
      register_module("dropout", std::make_shared<nn::Dropout>(0.1));
  std::shared_ptr<nn::Linear> out_ =
      register_module("out", std::make_shared<nn::Linear>(kHiddenUnits, 10));
};

}  // namespace ringlet::drill
