// LoRA: low-rank updates of frozen linear layers. Hu et al., LoRA, 2021; names as in PEFT.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/nn/clone.h"
#include "ringlet/nn/linear.h"

namespace ringlet::nn {

struct LoraOptions {
  std::int64_t r = 8;
  double alpha = 8;
  /// Patterns of nn::replace: {"attn.q", "attn.v"} for MPNet, {"query", "value"} for BERT, XLM-R
  /// and RoBERTa, {"q_lin", "v_lin"} for DistilBERT.
  std::vector<std::string> target_modules;
};

/// base(x) + alpha / r lora_B(lora_A(x)), x (.., in) -> (.., out). The base keeps its parameters'
/// names; lora_B starts at 0. A saved folder holds weight + alpha / r lora_B lora_A as `weight`.
class Lora final : public UnaryModule {
 public:
  Lora(std::shared_ptr<Linear> base, std::int64_t r, double alpha) : r_(r), alpha_(alpha) {
    RINGLET_CHECK(r > 0, "[Lora] r: expected 1 or more, got ", r);
    const std::int64_t out = base->weight.size(0), in = base->weight.size(1);
    const Device device = base->weight.device();
    base_ = register_module("", std::move(base));
    a_ = register_module(
        "lora_A", std::make_shared<Linear>(fan_in_uniform({r, in}, in).to(device), Tensor()));
    b_ = register_module("lora_B",
                         std::make_shared<Linear>(zeros({out, r}, DType::f32, device), Tensor()));
  }
  const char* kind() const override { return "Lora"; }
  std::shared_ptr<Module> blank_copy(Cloner& cloner) const override {
    return std::make_shared<Lora>(cloner(base_), r_, alpha_);
  }
  Variable forward(const Variable& x) override {
    return (*base_)(x) + (*b_)((*a_)(x)) * (alpha_ / static_cast<double>(r_));
  }
  const Parameter& weight() const { return base_->weight; }
  /// (r, in) and (out, r): a saved folder holds their product as part of the weight.
  std::array<Parameter, 2> factors() const { return {a_->weight, b_->weight}; }
  std::int64_t r() const { return r_; }
  double alpha() const { return alpha_; }
  /// The name of the layer that it adapts: "encoder.layer.0.attention.attn.q".
  std::string name() const;
  /// The saved weight, of whole values of the weight and of factors().
  Tensor merged(const Tensor& weight, const Tensor& a, const Tensor& b) const {
    return add(weight, scale(matmul(b, a), alpha_ / static_cast<double>(r_)));
  }

 private:
  std::int64_t r_;
  double alpha_;
  std::shared_ptr<Linear> base_;
  std::shared_ptr<Linear> a_;  // (r, in)
  std::shared_ptr<Linear> b_;  // (out, r)
};

/// Freezes all parameters below `module` and puts a Lora into each linear layer that
/// target_modules name; returns how many. Before an optimizer and a strategy are made. An Error
/// changes nothing.
std::size_t add_lora(Module& module, const LoraOptions& options);

/// Writes the factors alone, in PEFT's format: adapter_config.json and adapter_model.safetensors.
/// `base` is the path or name of the model that they adapt. Under a strategy over several ranks
/// every rank calls it, and rank 0 writes.
void save_lora(const Module& module, const std::filesystem::path& folder,
               const std::string& base = "");
/// Reads such a folder, also one of PEFT's save_pretrained. Layers that it names are adapted first,
/// as by add_lora, unless `module` has Loras already. Returns how many there are. InputError, for
/// settings that have no counterpart here, too.
std::size_t load_lora(Module& module, const std::filesystem::path& folder);

}  // namespace ringlet::nn
