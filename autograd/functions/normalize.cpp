// Normalised rows and their cosines, with gradients.
#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet::autograd {

Variable normalize(const Variable& x, double eps) {
  const NormalizeOutput out = ringlet::normalize(x.tensor(), eps);
  auto backward = [x = Saved(x), norm = out.norm, eps](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::normalize_backward(grad, x.tensor(grads), norm, eps));
  };
  return record("normalize", out.y, {x}, std::move(backward));
}

Variable cosine_similarity(const Variable& a, const Variable& b, double eps) {
  auto backward = [a = Saved(a), b = Saved(b), eps](const Tensor& grad, Gradients& grads) {
    CosineSimilarityGradients out = ringlet::cosine_similarity_backward(
        grad, a.tensor(grads), b.tensor(grads), eps, grads[0].needed(), grads[1].needed());
    if (out.a) grads[0].set(std::move(out.a));
    if (out.b) grads[1].set(std::move(out.b));
  };
  return record("cosine_similarity", ringlet::cosine_similarity(a.tensor(), b.tensor(), eps),
                {a, b}, std::move(backward));
}

Variable cosine_similarity_matrix(const Variable& a, const Variable& b) try {
  return matmul(normalize(a), normalize(b), {.trans_b = true});
} catch (const Error& error) {
  fail_as("cosine_similarity_matrix", error);
}

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  const LayerNormOutput out = ringlet::layer_norm(x.tensor(), weight.tensor(), bias.tensor(), eps);
  auto backward = [x = Saved(x), weight = Saved(weight), mean = out.mean, rstd = out.rstd](
                      const Tensor& grad, Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    const GradientSink to_weight = grads[1].sink_of(w), to_bias = grads[2].sink_of(w);
    Tensor grad_x = ringlet::layer_norm_backward(grad, x.tensor(grads), mean, rstd, w,
                                                 grads[0].needed(), to_weight, to_bias);
    if (grad_x) grads[0].set(std::move(grad_x));
  };
  return record("layer_norm", out.y, {x, weight, bias}, std::move(backward));
}

Variable rms_norm(const Variable& x, const Variable& weight, double eps) try {
  const Variable wide = cast(x, parameter_dtype(x.dtype()));
  const Variable scaled = wide * rsqrt(mean(square(wide), {-1}, true) + eps);
  return cast(scaled * weight, x.dtype());
} catch (const Error& error) {
  fail_as("rms_norm", error);
}

Variable residual_dropout_layer_norm(const Variable& x, const Variable& residual,
                                     const DropoutKey& key, const Tensor& positions,
                                     const Variable& weight, const Variable& bias, double eps,
                                     const Variable& x_bias) {
  const ResidualLayerNormOutput out = ringlet::residual_dropout_layer_norm(
      x.tensor(), residual.tensor(), key, positions, weight.tensor(), bias.tensor(), eps);
  auto backward = [weight = Saved(weight), normalized = out.normalized, rstd = out.rstd, key,
                   positions](const Tensor& grad, Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    const GradientSink to_weight = grads[2].sink_of(w), to_bias = grads[3].sink_of(w);
    const GradientSink to_x_bias = grads[4].sink_of(w);
    ResidualLayerNormGradients both = ringlet::residual_dropout_layer_norm_backward(
        grad, normalized, rstd, w, key, positions, to_weight, to_bias, to_x_bias);
    if (grads[0].needed()) grads[0].set(std::move(both.x));
    if (grads[1].needed()) grads[1].set(std::move(both.residual));
  };
  return record("residual_dropout_layer_norm", out.y, {x, residual, weight, bias, x_bias},
                std::move(backward));
}

}  // namespace ringlet::autograd
