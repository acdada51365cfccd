// The optimizers: AdamW and SGD as in torch.optim.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ringlet/train/optimizer/optimizer.h"

namespace ringlet::train {

struct AdamWOptions {
  double lr = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::vector<ParameterGroup> groups = {};
  double max_grad_norm = 0;  // clip the global norm to this; 0 leaves gradients as they are
  bool check_finite = true;  // refuse a gradient that is not finite, naming its parameter
  double ema_decay = 0;      // of a moving average of the parameters (EmaScope); 0: none
};

/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p = p (1 - lr decay) - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
class AdamW final : public Optimizer {
 public:
  explicit AdamW(nn::Module& module, AdamWOptions options = {})
      : Optimizer(module,
                  {options.lr, options.weight_decay, std::move(options.groups),
                   options.max_grad_norm, options.check_finite, options.ema_decay},
                  {"exp_avg", "exp_avg_sq"}),
        constants_{options.beta1, options.beta2, options.eps} {}

 private:
  std::vector<double> scalars(double lr, double weight_decay, std::int64_t step) const override {
    return adamw_scalars(lr, weight_decay, step, constants_);
  }
  void update(Run& run) override {
    adamw_(run.data, run.grad, run.moments[0], run.moments[1], run.scalars, constants_, run.rounded,
           run.blocks);
  }
  AdamWConstants constants_;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;  // needs momentum
  double weight_decay = 0;
  std::vector<ParameterGroup> groups = {};
  double max_grad_norm = 0;  // clip the global norm to this; 0 leaves gradients as they are
  bool check_finite = true;  // refuse a gradient that is not finite, naming its parameter
  double ema_decay = 0;      // of a moving average of the parameters (EmaScope); 0: none
};

/// g += decay p, m = momentum m + g, p -= lr m; with nesterov, p -= lr (g + momentum m).
class Sgd final : public Optimizer {
 public:
  explicit Sgd(nn::Module& module, SgdOptions options = {})
      : Optimizer(module,
                  {options.lr, options.weight_decay, std::move(options.groups),
                   options.max_grad_norm, options.check_finite, options.ema_decay},
                  std::vector<std::string>(options.momentum != 0 ? 1 : 0, "momentum_buffer")),
        constants_{options.momentum, options.nesterov} {
    RINGLET_CHECK(!options.nesterov || options.momentum != 0, "[sgd] nesterov needs momentum");
  }

 private:
  std::vector<double> scalars(double lr, double weight_decay, std::int64_t) const override {
    return {lr, weight_decay};
  }
  void update(Run& run) override {
    Tensor none;
    sgd_(run.data, run.grad, constants_.momentum != 0 ? run.moments[0] : none, run.scalars,
         constants_, run.rounded);
  }
  SGDConstants constants_;
};

}  // namespace ringlet::train
