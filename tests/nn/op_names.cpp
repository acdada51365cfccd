// Every op's error begins with the name of the op that was called, also if others compute it.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "../device.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/max_pool.h"
#include "ringlet/nn/loss.h"
#include "ringlet/tests/files.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

constexpr Device kThere{DeviceType::cpu, 1};
std::set<std::string> called;

void wrong(const std::string& op, const std::function<void()>& call) {
  called.insert(op);
  std::string text = "nothing";
  try {
    call();
  } catch (const std::exception& error) {
    text = error.what();
  }
  if (!text.starts_with("[" + op + "] ")) FAIL_CHECK(op << " throws " << text);
}

/// The name of the function that `text` calls.
std::string op_of(std::string text) {
  text.resize(text.find('('));
  return text.substr(text.rfind(':') + 1);
}
#define WRONG(...) wrong(op_of(#__VA_ARGS__), [&] { (void)(__VA_ARGS__); })

Tensor of(DType dtype, Shape shape = {2, 3}) { return zeros(shape, dtype); }

/// Calls with a wrong axis, shape, dtype or device; X is Tensor or Variable.
template <class X>
struct Calls {
  using Many = std::vector<X>;
  X x{of(DType::f32)}, i{of(DType::i64)}, h{of(DType::f16)}, d{of(DType::f64)};
  X there{zeros({2, 3}, DType::f32, kThere)};
  X one{zeros({})}, row{zeros({3})}, wide{zeros({2, 5})}, kernel{zeros({1, 1, 2, 2})};
  X image{of(DType::i64, {1, 1, 2, 2})};
  Tensor ids = of(DType::i64, {2}), far = zeros({2}, DType::i64, kThere);
  Tensor words = of(DType::i32, {2}), bounds = tensor<std::int32_t>({0, 2});
  Tensor table = of(DType::i64), mask = of(DType::u8);

  void by_value() {
    for (int op = 0; op <= static_cast<int>(kLastUnaryOp); ++op)
      wrong(name(UnaryOp(op)), [&] { unary(UnaryOp(op), i); });
    for (int op = 0; op <= static_cast<int>(kLastBinaryOp); ++op)
      for (const X& other : {wide, h, there})
        wrong(name(BinaryOp(op)), [&] { binary(BinaryOp(op), x, other); });
    for (int op = 0; op <= static_cast<int>(kLastReduceOp); ++op) {
      wrong(name(ReduceOp(op)), [&] { reduce(ReduceOp(op), x, {5}); });
      wrong(name(ReduceOp(op)), [&] { reduce(ReduceOp(op), i, {0}); });
    }
  }

  void elements() {
    WRONG(scale(i, 2));
    WRONG(where(of(DType::f32), x, x));
    WRONG(where(mask, x, wide));
    WRONG(where(mask, x, d));
    WRONG(where(mask, x, there));
    WRONG(dropout(one, {.p = 0.5f}));
    WRONG(dropout(i, {.p = 0.5f}));
    WRONG(dropout(x, {.p = 0.5f}, ids));
    WRONG(dropout(x, {.p = 0.5f}, of(DType::i64, {2, 2})));
    WRONG(cumsum(x, 2));
    WRONG(cumsum(h, 0));
    WRONG(concat(Many{x, x}, 2));
    WRONG(concat(Many{x, wide}, 0));
    WRONG(concat(Many{x, there}, 0));
    WRONG(stack(Many{x, x}, 4));
    WRONG(stack(Many{x, i}, 0));
    WRONG(stack(Many{x, wide}, 0));
    WRONG(narrow(x, 2, 0, 1));
    WRONG(narrow(x, 1, 2, 2));
    WRONG(split(x, {1, 2}, 2));
    WRONG(split(x, {1, 1}, 1));
    WRONG(split(x, {4, -1}, 1));
    WRONG(pad(x, 2, 1, 1));
    WRONG(pad(x, 0, -1, 1));
    WRONG(permute(x, {0, 2}));
    WRONG(permute(x, {0}));
    WRONG(transpose(x, 0, 2));
    WRONG(transpose(row));
    WRONG(index_select(x, 2, ids));
    WRONG(index_select(x, 0, table));
    WRONG(index_select(x, 0, of(DType::f32, {2})));
    WRONG(index_select(x, 0, far));
    WRONG(gather(x, 2, table));
    WRONG(gather(x, 0, ids));
    WRONG(gather(x, 0, of(DType::f32)));
    WRONG(scatter_add(x, 2, table, x));
    WRONG(scatter_add(x, 0, table, wide));
    WRONG(scatter_add(i, 0, table, i));
    WRONG(scatter_add(x, 0, table, there));
  }

  void rows() {
    WRONG(matmul(x, x));
    WRONG(matmul(row, x));
    WRONG(matmul(i, i, {.trans_b = true}));
    WRONG(matmul(x, there, {.trans_b = true}));
    WRONG(linear(wide, x));
    WRONG(linear(i, i));
    WRONG(linear(x, there));
    WRONG(linear(x, x, row));
    WRONG(conv2d(x, x, {}));
    WRONG(conv2d(image, kernel, {}));
    WRONG(max_pool2d(x, 2));
    WRONG(max_pool2d(image, 2));
    WRONG(softmax(one));
    WRONG(softmax(i));
    WRONG(log_softmax(one));
    WRONG(log_softmax(i));
    WRONG(cross_entropy(one, ids, 1));
    WRONG(cross_entropy(x, of(DType::f32, {2}), 1));
    WRONG(cross_entropy(i, ids, 1));
    WRONG(cross_entropy(x, far, 1));
    WRONG(normalize(one));
    WRONG(normalize(i));
    WRONG(cosine_similarity(x, wide));
    WRONG(cosine_similarity(i, i));
    WRONG(cosine_similarity(x, there));
    WRONG(layer_norm(one, row, row, 1e-5));
    WRONG(layer_norm(wide, row, row, 1e-5));
    WRONG(layer_norm(i, row, row, 1e-5));
    WRONG(residual_dropout_layer_norm(x, wide, {}, {}, row, row, 1e-5));
    WRONG(residual_dropout_layer_norm(x, x, {}, ids, row, row, 1e-5));
    WRONG(residual_dropout_layer_norm(x, there, {}, {}, row, row, 1e-5));
    WRONG(embedding(x, ids));
    WRONG(embedding(row, words));
    WRONG(embedding(i, words));
    WRONG(embedding(x, zeros({2}, DType::i32, kThere)));
    WRONG(pooling(PoolingMode::mean, row, bounds));
    WRONG(pooling(PoolingMode::mean, x, ids));
    WRONG(pooling(PoolingMode::mean, i, bounds));
    WRONG(pooling(PoolingMode::mean, there, bounds));
  }

  // Core's alone.
  void tensors() {
    const EmbeddingIds all_ids{words, words, {}};
    WRONG(add(i, 0.5));
    WRONG(scalar_like(0.5, i));
    WRONG(argmax(x, 2));
    WRONG(argmax(i, 0));
    WRONG(argmin(x, 2));
    WRONG(argmin(i, 0));
    WRONG(argsort(x, 2));
    WRONG(sum_to(x, {2, 4}));
    WRONG(sum_to(i, {3}));
    WRONG(write_narrow(x, 2, 0, x));
    WRONG(index_add_(x, 2, words, x));
    WRONG(index_add_(i, 0, words, i));
    WRONG(one_hot(x, 3));
    WRONG(linear_gelu(x, wide, {}, x));
    WRONG(uniform({2}, 0, 1, DType::i64));
    WRONG(normal({2}, 0, 1, DType::i64));
    WRONG(attention(row, bounds, {}));
    WRONG(attention(x, ids, {}));
    WRONG(attention(i, bounds, {}));
    WRONG(attention(there, bounds, {}));
    WRONG(embedding_sum_layer_norm({x, row, {}}, all_ids, row, row, 1e-5, {}, {}, DType::f32));
    WRONG(embedding_sum_layer_norm({x, there, {}}, all_ids, row, row, 1e-5, {}, {}, DType::f32));
    WRONG(embedding_sum_layer_norm({x, d, {}}, all_ids, row, row, 1e-5, {}, {}, DType::f32));
    WRONG(embedding_sum_layer_norm({x, x, {}}, all_ids, row, row, 1e-5, {}, words, DType::f32));
  }

  // Autograd's and nn's alone.
  void composed() {
    WRONG(pow(i, 0.5));
    WRONG(masked_fill(x, of(DType::u8, {2, 5}), 0));
    WRONG(masked_fill(i, mask, 0.5));
    WRONG(clamp(i, 0.5, 1));
    WRONG(clamp(h, 0, 1));
    WRONG(silu(i));
    WRONG(logsumexp(x, {2}));
    WRONG(logsumexp(i));
    WRONG(var(x, {2}));
    WRONG(var(i));
    WRONG(autograd::std(x, {2}));
    WRONG(view(x, {4}));
    WRONG(slice(x, 1, 3));
    WRONG(sort(x, 2));
    WRONG(tril(row));
    WRONG(triu(row));
    WRONG(linear_gelu(x, wide));
    WRONG(packed_linear(x, {x, wide}, {}));
    WRONG(packed_linear(x, {wide}, {wide}));
    WRONG(packed_linear(x, {there}, {there}));
  }

  void losses() {
    WRONG(product_cross_entropy(one, x, ids, 1, 1));
    WRONG(product_cross_entropy(x, wide, ids, 1, 1));
    WRONG(product_cross_entropy(x, x, bounds.to(DType::f32), 1, 1));
    WRONG(cosine_similarity_matrix(x, wide));
    WRONG(cosine_similarity_matrix(i, i));
    WRONG(rms_norm(one, row, 1e-6));
    WRONG(rms_norm(wide, row, 1e-6));
    WRONG(scaled_dot_product_attention(one, x, x, false, {}));
    WRONG(scaled_dot_product_attention(x, wide, wide, false, {}));
    WRONG(scaled_dot_product_attention(x, x, x, false, of(DType::u8, {5})));
    WRONG(scaled_dot_product_attention(x, there, x, true, {}));
    WRONG(rotary_embedding(one));
    WRONG(rotary_embedding(x));
    WRONG(rotary_embedding(Variable(zeros({4}))));
    WRONG(attention(x, row, bounds, {}));
    WRONG(nn::cross_entropy(one, ids));
    WRONG(nn::cross_entropy(x, of(DType::i64, {3}), {}));
    WRONG(nn::nll_loss(row, ids));
    WRONG(nn::nll_loss(x, bounds.to(DType::f32)));
    WRONG(nn::mse_loss(x, wide));
    WRONG(nn::mse_loss(x, there));
    WRONG(nn::binary_cross_entropy_with_logits(x, wide));
    WRONG(nn::binary_cross_entropy_with_logits(i, i));
    WRONG(nn::kl_div(x, wide));
    WRONG(nn::kl_div(one, one));
  }
};

/// The functions in a header that return tensors. Backward functions have their op's name.
void add_declared(std::set<std::string>& names, const std::string& header) {
  std::ifstream file(tests_file("../" + header));
  REQUIRE(file);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("inline ")) line.erase(0, 7);
    const std::size_t space = line.find(' '), end = line.find('(');
    const std::string type = line.substr(0, space);
    const bool result = type == "Tensor" || type == "Variable" || type == "Sorted" ||
                        type.ends_with("Output") || type == "std::vector<Tensor>" ||
                        type == "std::vector<Variable>";
    if (!result || end == std::string::npos || end < space) continue;
    const std::string op = line.substr(space + 1, end - space - 1);
    if (op.find("_backward") == std::string::npos && !op.starts_with("operator")) names.insert(op);
  }
}

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "every op's error begins with its name") {
  // Ops by value have the names of the values, and the last four take every tensor.
  called = {"unary", "binary", "reduce", "adjacent", "cast", "to", "lower_triangle"};
  Calls<Tensor> tensors;
  tensors.by_value();
  tensors.elements();
  tensors.rows();
  tensors.tensors();
  Calls<Variable> variables;
  variables.by_value();
  variables.elements();
  variables.rows();
  variables.composed();
  variables.losses();

  std::set<std::string> declared;
  for (const char* header : {"autograd/functions.h", "nn/loss.h"}) add_declared(declared, header);
  std::ifstream functions(tests_file("../autograd/functions.h"));
  for (std::string line; std::getline(functions, line);)
    if (const std::string ops = "#include \"ringlet/core/ops/"; line.starts_with(ops))
      add_declared(declared, "core/ops/" + line.substr(ops.size(), line.size() - ops.size() - 1));
  CHECK(declared.size() > 90);
  for (const std::string& op : declared)
    if (!called.contains(op)) FAIL_CHECK("no wrong call of " << op);
}
