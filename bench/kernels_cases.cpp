#include "kernels_cases.h"

#include <fmt/format.h>

#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/relative_position.h"
#include "ringlet/models/transformer.h"
#include "ringlet/nn/pack.h"
#include "ringlet/train/optimizer/update_rules.h"

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
    linear_layer("qkv", 3 * h_, h_, {.sums = true});
    linear_layer("attention_dense", h_, h_, {});
    linear_layer("intermediate_gelu", f_, h_, {.gelu = true});
    linear_layer("output", h_, f_, {});
    norms();
    attention_core();
    embeddings();
    head();
    moves();
    optimizer();
    return std::move(cases_);
  }

 private:
  using Draw = std::function<Tensor()>;
  using Run = std::function<Tensors(Tensors& x)>;

  /// `run` gets the drawn inputs, or what `before` makes of them; it returns a tensor or several.
  template <class Op>
  void add_case(const std::string& name, std::int64_t calls, const std::vector<Draw>& draws, Op op,
                const Run& before = nullptr) {
    const Run run = [op](Tensors& x) { return Tensors{op(x)}; };
    cases_.push_back({prefix_ + name, calls, [=] {
                        Tensors inputs;
                        for (const Draw& draw : draws) inputs.push_back(draw());
                        return KernelWork{before ? before(inputs) : inputs, run};
                      }});
  }
  /// Activations (T, columns).
  Draw act(std::int64_t columns) const {
    return [=, this] { return normal({t_, columns}).to(dtype_); };
  }
  static Draw parameter(const Shape& shape) {
    return [=] { return normal(shape, 0, 0.02); };
  }
  static Draw values(const Shape& shape) {
    return [=] { return normal(shape); };
  }
  static Draw same(const Tensor& x) {
    return [=] { return x; };
  }
  /// The dtype of activations that are computed from `parameters`.
  DType computed(DType parameters) const { return parameters == DType::f64 ? DType::f64 : dtype_; }

  struct LinearLayer {
    bool gelu = false;
    bool sums = false;  // whether the gradient of the bias comes from the weight's product
  };

  // One linear layer (T, in) -> (T, out): forward, and the two products of its backward. The second
  // one is measured with the sums that are the bias's gradient, and both parts separately.
  void linear_layer(const std::string& name, std::int64_t out, std::int64_t in, LinearLayer kind) {
    add_case("NT " + name, layers_, {act(in), parameter({out, in}), parameter({out})},
             [kind](Tensors& x) -> Tensors {
               if (!kind.gelu) return {linear(x[0], x[1], x[2])};
               Tensor pre;
               const Tensor y = linear_gelu(x[0], x[1], x[2], pre);
               return {y, pre};
             });
    add_case("NN " + name, layers_, {act(out), parameter({out, in})},
             [](Tensors& x) { return matmul(x[0], x[1]); });
    add_case("TN, sums " + name, kind.sums ? layers_ : 0, {act(out), act(in)},
             [=](Tensors& x) -> Tensors {
               const DType dtype = parameter_dtype(x[0].dtype());
               Tensor grad_weight = empty({out, in}, dtype), grad_bias = empty({out}, dtype);
               linear_gradients_into({grad_weight}, {grad_bias}, x[0], x[1]);
               return {grad_weight, grad_bias};
             });
    add_case("TN " + name, kind.sums ? 0 : layers_, {act(out), act(in)}, [=](Tensors& x) {
      Tensor grad = empty({out, in}, parameter_dtype(x[0].dtype()));
      matmul_into(grad, x[0], x[1], {.trans_a = true});
      return grad;
    });
    add_case("sum_rows " + name, 0, {act(out)}, [=](Tensors& x) {
      Tensor grad = empty({out}, parameter_dtype(x[0].dtype()));
      sum_rows_into(grad, x[0]);
      return grad;
    });
  }

  void norms() {
    const double eps = config_.layer_norm_eps;
    const std::vector<Draw> two{act(h_), act(h_), parameter({h_}), parameter({h_})};
    const auto residual = [eps, this](Tensors& x) -> Tensors {
      auto [y, normalized, rstd] =
          residual_dropout_layer_norm(x[0], x[1], dropout_, batch_.positions, x[2], x[3], eps);
      return {y, normalized, rstd};
    };
    add_case("residual_dropout_layer_norm", 2 * layers_, two, residual);
    add_case(
        "residual_dropout_layer_norm backward", 2 * layers_, two,
        [this](Tensors& x) -> Tensors {
          const Tensor dw = empty({h_}, x[3].dtype()), db = empty({h_}, x[3].dtype());
          const Tensor sums = empty({h_}, x[3].dtype());
          auto [dx, dr] = residual_dropout_layer_norm_backward(
              x[0], x[1], x[2], x[3], dropout_, batch_.positions, {dw}, {db}, {sums});
          return {dx, dr, dw, db, sums};
        },
        [residual](Tensors& x) -> Tensors {
          const Tensors forward = residual(x);
          return {x[0], forward[1], forward[2], x[2]};
        });
    const auto plain = [eps](Tensors& x) -> Tensors {
      auto [y, mean, rstd] = layer_norm(x[0], x[1], x[2], eps);
      return {y, mean, rstd};
    };
    add_case("layer_norm", 0, {act(h_), parameter({h_}), parameter({h_})}, plain);
    add_case(
        "layer_norm backward", 0, {act(h_), parameter({h_}), parameter({h_}), act(h_)},
        [this](Tensors& x) -> Tensors {
          const Tensor dw = empty({h_}, x[4].dtype()), db = empty({h_}, x[4].dtype());
          const Tensor dx = layer_norm_backward(x[0], x[1], x[2], x[3], x[4], true, {dw}, {db});
          return {dx, dw, db};
        },
        [plain](Tensors& x) -> Tensors {
          const Tensors forward = plain(x);
          return {x[3], x[0], forward[1], forward[2], x[1]};
        });
  }

  AttentionOptions attention_options(const Tensor& bias) const {
    return {.heads = config_.num_attention_heads,
            .relative_bias = bias,
            .dropout = dropout_,
            .sentence_ids = batch_.sentence_ids};
  }

  // With MPNet's relative bias as the last input.
  void attention_core() {
    std::vector<Draw> draws{act(3 * h_)};
    if (mpnet_) draws.push_back(parameter({kRelativeBuckets, config_.num_attention_heads}));
    const auto forward = [this](Tensors& x) -> Tensors {
      auto [out, lse] =
          attention(x[0], batch_.cu_seqlens, attention_options(mpnet_ ? x[1] : Tensor()));
      return {out, lse};
    };
    add_case("attention", layers_, draws, forward);
    add_case(
        "attention backward", layers_, draws,
        [this](Tensors& x) -> Tensors {
          const Tensor bias = mpnet_ ? x[4] : Tensor(), db = mpnet_ ? empty_like(bias) : Tensor();
          const Tensor dx = attention_backward(x[0], x[3], {x[1], x[2]}, batch_.cu_seqlens,
                                               attention_options(bias), {db});
          return mpnet_ ? Tensors{dx, db} : Tensors{dx};
        },
        [=, grad = act(h_)](Tensors& x) -> Tensors {
          Tensors y = forward(x);
          x.insert(x.begin(), {grad(), std::move(y[0]), std::move(y[1])});
          return x;
        });
  }

  EmbeddingIds embedding_ids() const {
    const bool counted = config_.counts_positions();
    EmbeddingIds ids{batch_.token_ids, counted ? batch_.counted_position : batch_.token_index, {}};
    if (config_.type_vocab_size > 0) ids.type = zeros_like(ids.word);
    return ids;
  }

  void embeddings() {
    std::vector<Shape> tables{{config_.vocab_size, h_}, {config_.max_position_embeddings, h_}};
    if (config_.type_vocab_size > 0) tables.push_back({config_.type_vocab_size, h_});
    std::vector<Draw> draws{parameter({h_}), parameter({h_})};
    for (const Shape& table : tables) draws.push_back(parameter(table));
    add_case("embedding_sum_layer_norm", 1, draws,
             [this, ids = embedding_ids()](Tensors& x) -> Tensors {
               auto [y, normalized, rstd] = embedding_sum_layer_norm(
                   {x[2], x[3], x.size() > 4 ? x[4] : Tensor()}, ids, x[0], x[1],
                   config_.layer_norm_eps, dropout_, batch_.positions, computed(x[0].dtype()));
               return {y, normalized, rstd};
             });
    add_case("embedding_sum_layer_norm backward", 1,
             {act(h_), act(h_), [this] { return uniform({t_}, 1, 2); }, parameter({h_})},
             [this, tables, ids = embedding_ids()](Tensors& x) -> Tensors {
               const DType dtype = x[3].dtype();
               Tensors out{empty({h_}, dtype), empty({h_}, dtype)};
               for (const Shape& table : tables) out.push_back(empty(table, dtype));
               embedding_sum_layer_norm_backward(
                   {{out[2]}, {out[3]}, {out.size() > 4 ? out[4] : Tensor()}, {out[0]}, {out[1]}},
                   x[0], x[1], x[2], ids, x[3], dropout_, batch_.positions);
               return out;
             });
  }

  void head() {
    const std::int64_t rows = batch_.rows;
    const auto divisor = static_cast<double>(rows);
    add_case("mean_pooling", 1, {act(h_)},
             [this](Tensors& x) { return pooling(PoolingMode::mean, x[0], batch_.cu_seqlens).y; });
    add_case("mean_pooling backward", 1, {values({batch_.sentences(), h_})}, [this](Tensors& x) {
      return pooling_backward(PoolingMode::mean, x[0], {}, batch_.cu_seqlens, t_,
                              computed(x[0].dtype()));
    });
    add_case("NT classifier", 1, {values({rows, 3 * h_}), parameter({3, 3 * h_}), parameter({3})},
             [](Tensors& x) { return linear(x[0], x[1], x[2]); });
    const auto loss = [=](Tensors& x) -> Tensors {
      auto [value, lse] = cross_entropy(x[0], x[1], divisor);
      return {value, lse};
    };
    add_case("cross_entropy", 1, {values({rows, 3}), same(batch_.labels)}, loss);
    add_case(
        "cross_entropy backward", 1, {values({rows, 3}), same(batch_.labels)},
        [=](Tensors& x) { return cross_entropy_backward(x[0], x[1], x[2], x[3], divisor); },
        [loss](Tensors& x) -> Tensors {
          return {ones({}), x[0], x[1], loss(x)[1]};
        });
  }

  void moves() {
    // Gradients are added if a layer's input is used twice.
    add_case("axpby", 2 * layers_, {act(h_), act(h_)}, [](Tensors& x) -> Tensors {
      axpby(x[1], 0.5, x[0], 0.5);
      return {x[1]};
    });
    add_case("add", 0, {act(h_), act(h_)}, [](Tensors& x) { return add(x[0], x[1]); });
    add_case("copy", 0, {act(h_)}, [](Tensors& x) { return x[0].clone(); });
    add_case("gelu", 0, {act(f_)}, [](Tensors& x) { return gelu(x[0]); });
    add_case("gelu_backward", layers_, {act(f_), act(f_)}, [this](Tensors& x) -> Tensors {
      const Tensor sums = empty({f_}, parameter_dtype(x[0].dtype()));
      return {gelu_backward(x[0], x[1], {sums}), sums};
    });
    add_case("dropout", 0, {act(h_)},
             [this](Tensors& x) { return dropout(x[0], dropout_, batch_.positions); });
  }

  // Over a whole arena, as in a step, and over its units: a layer's parameters, the embeddings'.
  void optimizer() {
    // Its results are compared with f64 below.
    cases_.push_back({prefix_ + "adamw_step", 1, [this]() -> KernelWork {
                        const auto update = std::make_shared<ArenaUpdate>(config_, dtype_);
                        return {{}, [update](Tensors&) {
                                  update->optimizer.launch_step();
                                  return Tensors{};
                                }};
                      }});
    const std::int64_t layer = 4 * h_ * h_ + 2 * h_ * f_ + 9 * h_ + f_;
    const std::int64_t embeddings = (config_.vocab_size + config_.max_position_embeddings + 2) * h_;
    update("", layer, layers_);
    update("_embeddings", embeddings, 1);
    const auto blocks_of = [](std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock; };
    const std::int64_t blocks = layers_ * blocks_of(layer) + blocks_of(embeddings);
    add_case("clip_factor", 1, {[=] { return uniform({blocks}, 0, 1, DType::f64); }},
             [](Tensors& x) { return clip_factor(x[0], 1, true); });
  }

  void update(const std::string& unit, std::int64_t n, std::int64_t calls) {
    const Draw positive = [=] { return uniform({n}, 0, 1e-3); };
    add_case("adamw" + unit, 0, {parameter({n}), parameter({n}), parameter({n}), positive},
             [scalars = step_scalars(adamw_scalars(2e-5, 0.01, 10))](Tensors& x) -> Tensors {
               adamw_(x[0], x[1], x[2], x[3], scalars);
               return {x[0], x[2], x[3]};
             });
    add_case("squared_norm_blocks" + unit, calls, {parameter({n})},
             [](Tensors& x) { return squared_norm_blocks(x[0]); });
  }

  DropoutKey dropout_;
  std::string prefix_;
  EncoderConfig config_;
  PackedBatch batch_;
  DType dtype_;
  std::int64_t t_ = batch_.tokens(), h_ = config_.hidden_size, f_ = config_.intermediate_size;
  std::int64_t layers_ = config_.num_hidden_layers;
  bool mpnet_ = config_.architecture == models::Architecture::mpnet;
  std::vector<KernelCase> cases_;
};

/// (rows, columns), stored transposed or not.
Tensor matrix(std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
  return normal(transposed ? Shape{columns, rows} : Shape{rows, columns}).to(dtype);
}

/// out (m, n) = op(a) op(b), with the sum over k.
KernelWork product_work(const MatmulOptions& options, std::int64_t m, std::int64_t n,
                        std::int64_t k, DType dtype) {
  const auto product = std::make_shared<Product>(Product{matrix(m, k, options.trans_a, dtype),
                                                         matrix(k, n, options.trans_b, dtype),
                                                         options, empty({m, n}, dtype)});
  const auto run = [options](Tensors& x) -> Tensors {
    matmul_into(x[2], x[0], x[1], options);
    return {x[2]};
  };
  return {{product->a, product->b, empty({m, n}, dtype)}, run, product};
}

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

std::vector<KernelCase> product_cases(std::int64_t hidden, const std::vector<std::int64_t>& tokens,
                                      DType dtype) {
  std::vector<KernelCase> cases;
  for (const std::int64_t t : tokens)
    for (const auto& [in, out] :
         {std::pair{hidden, hidden}, {hidden, 4 * hidden}, {4 * hidden, hidden}}) {
      const std::int64_t from = in, to = out;  // clang captures no structured bindings
      const auto add = [&](const char* form, const MatmulOptions& options, std::int64_t m,
                           std::int64_t n, std::int64_t k) {
        cases.push_back(
            {fmt::format("H{}/{}/T{} {}->{} {}", hidden, name(dtype), t, from, to, form), 0,
             [=] { return product_work(options, m, n, k, dtype); }});
      };
      add("NT", {.trans_b = true}, t, to, from);
      add("NN", {}, t, from, to);
      add("TN", {.trans_a = true}, to, from, t);
    }
  return cases;
}

}  // namespace ringlet::bench
