#include "kernels_cases.h"

#include <memory>

#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/models/transformer.h"
#include "ringlet/nn/arena.h"
#include "ringlet/train/update_rules.h"

namespace ringlet::bench {
namespace {

using Tensors = std::vector<Tensor>;
using models::EncoderConfig;
using models::PackedBatch;

/// An encoder with gradients, and the prepared update of all its parameters. On a GPU, for a step
/// in bf16, the update rounds them, too.
struct ArenaUpdate {
  ArenaUpdate(const EncoderConfig& config, DType dtype)
      : encoder(models::Transformer::create(config)),
        optimizer(*encoder, {.lr = 2e-5, .weight_decay = 0.01, .check_finite = false}) {
    const auto arena = nn::pack(*encoder);
    if (dtype == DType::bf16 && arena->data().device().type == DeviceType::cuda)
      arena->data().storage()->want_mirror();
    Tensor grad = arena->grad();
    grad.copy_(normal(grad.shape(), 0, 1e-3));
    for (const nn::Parameter& parameter : encoder->parameters()) parameter.state()->has_grad = true;
    optimizer.prepare_step();
  }
  std::shared_ptr<models::Transformer> encoder;
  train::AdamW optimizer;
};

class StepCases {
 public:
  StepCases(const std::string& model, const EncoderConfig& config, const PackedBatch& batch,
            DType dtype, double dropout)
      : dropout_{.p = static_cast<float>(dropout), .seed = 1, .step = 1, .site = 1},
        prefix_(str(model, "/", dtype, "/")),
        config_(config),
        batch_(batch),
        dtype_(dtype) {}

  std::vector<KernelCase> take() {
    products();
    norms();
    attention_core();
    embeddings();
    head();
    moves();
    optimizer();
    return std::move(cases_);
  }

 private:
  void add_case(const std::string& name, std::int64_t calls, std::function<KernelWork()> prepare) {
    cases_.push_back({prefix_ + name, calls, std::move(prepare)});
  }
  Tensor activation(const Shape& shape) const { return normal(shape).to(dtype_); }
  static Tensor parameter(const Shape& shape) { return normal(shape, 0, 0.02); }

  // One linear layer (T, in) -> (T, out): forward, and the two products of its backward. The second
  // one's parts are also measured separately.
  void linear_layer(const std::string& name, std::int64_t out, std::int64_t in, bool with_gelu) {
    const std::int64_t t = tokens_;
    const std::int64_t calls = config_.num_hidden_layers;
    add_case("NT " + name, calls, [=, this]() -> KernelWork {
      return {{activation({t, in}), parameter({out, in}), parameter({out})},
              [with_gelu](Tensors& x) -> Tensors {
                if (!with_gelu) return {linear(x[0], x[1], x[2])};
                Tensor pre;
                Tensor y = linear_gelu(x[0], x[1], x[2], pre);
                return {y, pre};
              }};
    });
    add_case("NN " + name, calls, [=, this]() -> KernelWork {
      return {{activation({t, out}), parameter({out, in})},
              [](Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }};
    });
    add_case("TN, sums " + name, calls, [=, this]() -> KernelWork {
      return {{activation({t, out}), activation({t, in})}, [=](Tensors& x) -> Tensors {
                const DType dtype = parameter_dtype(x[0].dtype());
                Tensor grad_weight = empty({out, in}, dtype), grad_bias = empty({out}, dtype);
                linear_gradients_into({grad_weight}, {grad_bias}, x[0], x[1]);
                return {grad_weight, grad_bias};
              }};
    });
    add_case("TN " + name, 0, [=, this]() -> KernelWork {
      return {{activation({t, out}), activation({t, in})}, [=](Tensors& x) -> Tensors {
                Tensor grad = empty({out, in}, parameter_dtype(x[0].dtype()));
                matmul_into(grad, x[0], x[1], {.trans_a = true});
                return {grad};
              }};
    });
    add_case("sum_rows " + name, 0, [=, this]() -> KernelWork {
      return {{activation({t, out})}, [=](Tensors& x) -> Tensors {
                Tensor grad = empty({out}, parameter_dtype(x[0].dtype()));
                sum_rows_into(grad, x[0]);
                return {grad};
              }};
    });
  }

  void products() {
    const std::int64_t h = config_.hidden_size, f = config_.intermediate_size;
    linear_layer("qkv", 3 * h, h, false);
    linear_layer("attention_dense", h, h, false);
    linear_layer("intermediate_gelu", f, h, true);
    linear_layer("output", h, f, false);
    add_case("gelu_backward", config_.num_hidden_layers, [=, this]() -> KernelWork {
      return {{activation({tokens_, f}), activation({tokens_, f})},
              [](Tensors& x) -> Tensors { return {gelu_backward(x[0], x[1])}; }};
    });
  }

  void norms() {
    const std::int64_t t = tokens_, h = config_.hidden_size, calls = 2 * config_.num_hidden_layers;
    add_case("residual_dropout_layer_norm", calls, [=, this]() -> KernelWork {
      return {{activation({t, h}), activation({t, h}), parameter({h}), parameter({h})},
              [this](Tensors& x) -> Tensors {
                auto [y, normalized, rstd] = residual_dropout_layer_norm(
                    x[0], x[1], dropout_, batch_.positions, x[2], x[3], config_.layer_norm_eps);
                return {y, normalized, rstd};
              }};
    });
    add_case("residual_dropout_layer_norm backward", calls, [=, this]() -> KernelWork {
      const Tensor x = activation({t, h}), weight = parameter({h});
      const auto forward = residual_dropout_layer_norm(x, x, dropout_, batch_.positions, weight,
                                                       parameter({h}), config_.layer_norm_eps);
      return {{activation({t, h}), forward.normalized, forward.rstd, weight},
              [this, h](Tensors& in) -> Tensors {
                Accumulator grad_weight{empty({h}, in[3].dtype())}, grad_bias = grad_weight;
                grad_bias.out = empty({h}, in[3].dtype());
                auto [dx, dr] = residual_dropout_layer_norm_backward(
                    in[0], in[1], in[2], in[3], dropout_, batch_.positions, grad_weight, grad_bias);
                return {dx, dr, grad_weight.out, grad_bias.out};
              }};
    });
    for (const bool backward : {false, true})
      add_case(backward ? "layer_norm backward" : "layer_norm", 0, [=, this]() -> KernelWork {
        const Tensor x = activation({t, h}), weight = parameter({h});
        const double eps = config_.layer_norm_eps;
        if (!backward)
          return {{x, weight, parameter({h})}, [eps](Tensors& in) -> Tensors {
                    auto [y, mean, rstd] = layer_norm(in[0], in[1], in[2], eps);
                    return {y, mean, rstd};
                  }};
        const auto forward = layer_norm(x, weight, parameter({h}), eps);
        return {{activation({t, h}), x, forward.mean, forward.rstd, weight},
                [h](Tensors& in) -> Tensors {
                  const Tensor dw = empty({h}, in[4].dtype()), db = empty({h}, in[4].dtype());
                  const Tensor dx =
                      layer_norm_backward(in[0], in[1], in[2], in[3], in[4], true, {dw}, {db});
                  return {dx, dw, db};
                }};
      });
  }

  AttentionOptions attention_options(const Tensor& bias) const {
    return {.heads = config_.num_attention_heads,
            .relative_bias = bias,
            .dropout = dropout_,
            .sentence_ids = batch_.sentence_ids};
  }

  void attention_core() {
    const std::int64_t t = tokens_, h = config_.hidden_size, calls = config_.num_hidden_layers;
    const bool relative = config_.architecture == models::Architecture::mpnet;
    const auto inputs = [=, this]() -> Tensors {
      Tensors x{activation({t, 3 * h})};
      if (relative) x.push_back(parameter({kRelativeBuckets, config_.num_attention_heads}));
      return x;
    };
    add_case("attention", calls, [=, this]() -> KernelWork {
      return {inputs(), [=, this](Tensors& x) -> Tensors {
                auto [out, lse] = attention(x[0], batch_.cu_seqlens,
                                            attention_options(relative ? x[1] : Tensor()));
                return {out, lse};
              }};
    });
    add_case("attention backward", calls, [=, this]() -> KernelWork {
      Tensors x = inputs();
      const Tensor bias = relative ? x[1] : Tensor();
      const auto forward = attention(x[0], batch_.cu_seqlens, attention_options(bias));
      x.insert(x.begin(), {activation({t, h}), forward.lse});
      return {x, [=, this](Tensors& in) -> Tensors {
                const Tensor b = relative ? in[3] : Tensor();
                const Tensor db = relative ? empty_like(b) : Tensor();
                const Tensor dx = attention_backward(in[0], in[2], in[1], batch_.cu_seqlens,
                                                     attention_options(b), {db});
                return relative ? Tensors{dx, db} : Tensors{dx};
              }};
    });
  }

  EmbeddingIds embedding_ids() const {
    const bool mpnet = config_.architecture == models::Architecture::mpnet;
    const Tensor& index = mpnet ? batch_.mpnet_index : batch_.token_index;
    const auto first = static_cast<double>(config_.first_position());
    EmbeddingIds ids{batch_.token_ids, add(index, scalar_like(first, index)), {}};
    if (config_.type_vocab_size > 0) ids.type = zeros_like(index);
    return ids;
  }
  Tensors embedding_tables() const {
    const std::int64_t h = config_.hidden_size;
    Tensors tables{parameter({config_.vocab_size, h}),
                   parameter({config_.max_position_embeddings, h})};
    if (config_.type_vocab_size > 0) tables.push_back(parameter({config_.type_vocab_size, h}));
    return tables;
  }
  void embeddings() {
    const std::int64_t t = tokens_, h = config_.hidden_size;
    add_case("embedding_sum_layer_norm", 1, [=, this]() -> KernelWork {
      Tensors inputs = embedding_tables();
      inputs.insert(inputs.begin(), {parameter({h}), parameter({h})});
      return {inputs, [=, this, ids = embedding_ids()](Tensors& x) -> Tensors {
                const EmbeddingTables tables{x[2], x[3], x.size() > 4 ? x[4] : Tensor()};
                auto [y, normalized, rstd] = embedding_sum_layer_norm(
                    tables, ids, x[0], x[1], config_.layer_norm_eps, dropout_, batch_.positions,
                    x[0].dtype() == DType::f64 ? DType::f64 : dtype_);
                return {y, normalized, rstd};
              }};
    });
    add_case("embedding_sum_layer_norm backward", 1, [=, this]() -> KernelWork {
      const Tensors tables = embedding_tables();
      return {{activation({t, h}), activation({t, h}), uniform({t}, 1, 2), parameter({h})},
              [=, this, ids = embedding_ids()](Tensors& x) -> Tensors {
                const DType dtype = x[3].dtype();
                Tensors out{empty({h}, dtype), empty({h}, dtype)};
                for (const Tensor& table : tables) out.push_back(empty(table.shape(), dtype));
                embedding_sum_layer_norm_backward(
                    {{out[2]}, {out[3]}, {out.size() > 4 ? out[4] : Tensor()}, {out[0]}, {out[1]}},
                    x[0], x[1], x[2], ids, x[3], dropout_, batch_.positions);
                return out;
              }};
    });
  }

  void head() {
    const std::int64_t t = tokens_, h = config_.hidden_size, rows = batch_.rows;
    const Tensor ends = batch_.cu_seqlens;
    add_case("mean_pooling", 1, [=, this]() -> KernelWork {
      return {{activation({t, h})},
              [=](Tensors& x) -> Tensors { return {pooling(PoolingMode::mean, x[0], ends).y}; }};
    });
    add_case("mean_pooling backward", 1, [=, this]() -> KernelWork {
      return {{normal({batch_.sentences(), h})}, [=, this](Tensors& x) -> Tensors {
                const DType dtype = x[0].dtype() == DType::f64 ? DType::f64 : dtype_;
                return {pooling_backward(PoolingMode::mean, x[0], {}, ends, t, dtype)};
              }};
    });
    add_case("NT classifier", 1, [=]() -> KernelWork {
      return {{normal({rows, 3 * h}), parameter({3, 3 * h}), parameter({3})},
              [](Tensors& x) -> Tensors { return {linear(x[0], x[1], x[2])}; }};
    });
    add_case("cross_entropy", 1, [=, this]() -> KernelWork {
      return {{normal({rows, 3}), batch_.labels}, [=](Tensors& x) -> Tensors {
                auto [loss, lse] = cross_entropy(x[0], x[1], static_cast<double>(rows));
                return {loss, lse};
              }};
    });
    add_case("cross_entropy backward", 1, [=, this]() -> KernelWork {
      const Tensor logits = normal({rows, 3});
      const double divisor = static_cast<double>(rows);
      const Tensor lse = cross_entropy(logits, batch_.labels, divisor).lse;
      return {{ones({}), logits, batch_.labels, lse}, [=](Tensors& x) -> Tensors {
                return {cross_entropy_backward(x[0], x[1], x[2], x[3], divisor)};
              }};
    });
  }

  void moves() {
    const Shape shape{tokens_, config_.hidden_size};
    const auto two = [=, this] { return Tensors{activation(shape), activation(shape)}; };
    // Gradients are added if a layer's input is used twice.
    add_case("axpby", 2 * config_.num_hidden_layers, [=]() -> KernelWork {
      return {two(), [](Tensors& x) -> Tensors {
                axpby(x[1], 0.5, x[0], 0.5);
                return {x[1]};
              }};
    });
    add_case("add", 0, [=]() -> KernelWork {
      return {two(), [](Tensors& x) -> Tensors { return {add(x[0], x[1])}; }};
    });
    add_case("copy", 0, [=, this]() -> KernelWork {
      return {{activation(shape)}, [](Tensors& x) -> Tensors { return {x[0].clone()}; }};
    });
    add_case("gelu", 0, [=, this]() -> KernelWork {
      return {{activation({tokens_, config_.intermediate_size})},
              [](Tensors& x) -> Tensors { return {gelu(x[0])}; }};
    });
    add_case("dropout", 0, [=, this]() -> KernelWork {
      return {{activation(shape)}, [this](Tensors& x) -> Tensors {
                return {dropout(x[0], dropout_, batch_.positions)};
              }};
    });
  }

  // Over a whole arena, as in a step, and over its units: a layer's parameters, the embeddings'.
  void optimizer() {
    add_case("adamw_step", 1, [this]() -> KernelWork {
      // Its results are compared with f64 below.
      return {{}, [update = std::make_shared<ArenaUpdate>(config_, dtype_)](Tensors&) -> Tensors {
                update->optimizer.launch_step();
                return {};
              }};
    });
    const std::int64_t h = config_.hidden_size, f = config_.intermediate_size;
    const std::int64_t layer = 4 * h * h + 2 * h * f + 9 * h + f;
    const std::int64_t embeddings = (config_.vocab_size + config_.max_position_embeddings + 2) * h;
    update("", layer, config_.num_hidden_layers);
    update("_embeddings", embeddings, 1);
    const auto blocks_of = [](std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock; };
    const std::int64_t blocks =
        config_.num_hidden_layers * blocks_of(layer) + blocks_of(embeddings);
    add_case("clip_factor", 1, [=]() -> KernelWork {
      return {{uniform({blocks}, 0, 1, DType::f64)},
              [](Tensors& x) -> Tensors { return {clip_factor(x[0], 1, true)}; }};
    });
  }

  void update(const std::string& unit, std::int64_t n, std::int64_t calls) {
    add_case("adamw" + unit, 0, [=]() -> KernelWork {
      return {{parameter({n}), parameter({n}), parameter({n}), uniform({n}, 0, 1e-3)},
              [scalars = step_scalars(adamw_scalars(2e-5, 10))](Tensors& x) -> Tensors {
                adamw_(x[0], x[1], x[2], x[3], scalars);
                return {x[0], x[2], x[3]};
              }};
    });
    add_case("squared_norm_blocks" + unit, calls, [=]() -> KernelWork {
      return {{parameter({n})}, [](Tensors& x) -> Tensors { return {squared_norm_blocks(x[0])}; }};
    });
  }

  DropoutKey dropout_;
  std::string prefix_;
  EncoderConfig config_;
  PackedBatch batch_;
  DType dtype_;
  std::int64_t tokens_ = batch_.tokens();
  std::vector<KernelCase> cases_;
};

}  // namespace

std::vector<KernelCase> step_cases(const std::string& model, const EncoderConfig& config,
                                   const PackedBatch& batch, DType dtype, double dropout) {
  // The cases refer to the step, so each case keeps it alive.
  const auto step = std::make_shared<StepCases>(model, config, batch, dtype, dropout);
  std::vector<KernelCase> cases = step->take();
  for (KernelCase& c : cases)
    c.prepare = [step, prepare = std::move(c.prepare)] { return prepare(); };
  return cases;
}

}  // namespace ringlet::bench
