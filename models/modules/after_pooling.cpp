#include "ringlet/models/modules/after_pooling.h"

#include "ringlet/autograd/functions.h"
#include "ringlet/core/io/json.h"

namespace ringlet::models::modules {
namespace {

Variable activate(Activation activation, const Variable& x) {
  switch (activation) {
    case Activation::gelu:
      return autograd::gelu(x);
    case Activation::identity:
      return x;
    case Activation::relu:
      return autograd::relu(x);
    case Activation::sigmoid:
      return autograd::sigmoid(x);
    case Activation::tanh:
      return autograd::tanh(x);
  }
  fail("[Dense] no such activation");
}

}  // namespace

Dense::Dense(std::int64_t in_features, std::int64_t out_features, const DenseOptions& options)
    : options_(options),
      linear_(register_module(
          "linear", std::make_shared<nn::Linear>(in_features, out_features, options.bias))) {
  if (options.use_residual && in_features != out_features)
    residual_ =
        register_module("residual", std::make_shared<nn::Linear>(in_features, out_features, false));
}

std::shared_ptr<nn::Module> Dense::blank_copy(nn::Cloner&) const {
  return std::make_shared<Dense>(in_features(), out_features(), options_);
}

Variable Dense::forward(const Variable& x, const PackedBatch&) {
  const Variable y = activate(options_.activation, (*linear_)(x));  // (S, out)
  if (!options_.use_residual) return y;
  return y + (residual_ ? (*residual_)(x) : x);
}

std::int64_t Dense::dimension(std::int64_t width) const {
  RINGLET_CHECK_EQ(width, in_features(), "[Dense] columns of its input");
  return out_features();
}

std::string Dense::to_json() const {
  Json j;
  j["in_features"] = in_features();
  j["out_features"] = out_features();
  j["bias"] = options_.bias;
  const std::string file = options_.activation == Activation::identity ? "linear" : "activation";
  j["activation_function"] =
      "torch.nn.modules." + file + '.' + std::string(kActivations(options_.activation));
  // Releases before 5.7 refuse an unknown key.
  if (options_.use_residual) j["use_residual"] = true;
  return j.dump(2);
}

std::string Dropout::to_json() const { return Json{{"dropout", p_}}.dump(); }

}  // namespace ringlet::models::modules
