// The small convolutional network of the MNIST lessons: two convolutions, pooling, two linear
// layers, with dropout between.
#pragma once

#include "ringlet/autograd/functions.h"
#include "ringlet/nn/layers.h"
#include "ringlet/nn/linear.h"

namespace ringlet::models {

class Convnet final : public nn::Layer<Convnet> {
 public:
  const char* kind() const override { return "Convnet"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<Convnet>();
  }

  /// images (N, 1, 28, 28) -> log-probabilities (N, 10); `positions` as for nn::Dropout.
  Variable forward(const Variable& images, const Tensor& positions = {}) {
    using namespace autograd;
    Variable x = relu((*conv1_)(images));                // (N, 32, 26, 26)
    x = relu((*conv2_)(x));                              // (N, 64, 24, 24)
    x = (*dropout1_)((*pool_)(x), positions);            // (N, 64, 12, 12)
    x = relu((*fc1_)(view(x, {images.size(0), 9216})));  // (N, 128)
    x = (*fc2_)((*dropout2_)(x, positions));             // (N, 10)
    return log_softmax(x);
  }

 private:
  std::shared_ptr<nn::Conv2d> conv1_ =
      register_module("conv1", std::make_shared<nn::Conv2d>(1, 32, 3));
  std::shared_ptr<nn::Conv2d> conv2_ =
      register_module("conv2", std::make_shared<nn::Conv2d>(32, 64, 3));
  std::shared_ptr<nn::MaxPool2d> pool_ =
      register_module("pool", std::make_shared<nn::MaxPool2d>(2));
  std::shared_ptr<nn::Dropout> dropout1_ =
      register_module("dropout1", std::make_shared<nn::Dropout>(0.25));
  std::shared_ptr<nn::Dropout> dropout2_ =
      register_module("dropout2", std::make_shared<nn::Dropout>(0.5));
  std::shared_ptr<nn::Linear> fc1_ =
      register_module("fc1", std::make_shared<nn::Linear>(9216, 128));
  std::shared_ptr<nn::Linear> fc2_ = register_module("fc2", std::make_shared<nn::Linear>(128, 10));
};

}  // namespace ringlet::models
