// Runs ops and their gradients for scripts/oracles/differential.py.
//
//   op_program INPUT.safetensors OUTPUT.safetensors < CASES.jsonl
//
// A case is a line {"case": "3", "op": "layer_norm", "inputs": 3, "eps": 1e-5, …}. Its inputs are
// the tensors 3/x0, 3/x1, …, its integers 3/i0, …, and the gradient of its result is 3/grad. It
// writes 3/y and, for inputs with a gradient, 3/g0, 3/g1, …. An invalid case prints "3 MESSAGE".
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ringlet/core/io/json.h"
#include "ringlet/ringlet.h"
#include "ringlet/train/evaluators/statistics.h"

using namespace ringlet;
namespace ag = ringlet::autograd;

namespace {

struct Case {
  Json attributes;
  std::string name;
  SafeTensors file;
  std::vector<Variable> x;

  Tensor tensor(const std::string& key) const { return file.load(name + "/" + key).clone(); }
  template <class T>
  T get(const char* key) const {
    return attributes.at(key).get<T>();
  }
  int axis() const { return get<int>("axis"); }
  std::vector<int> axes() const { return get<std::vector<int>>("axes"); }
  Variable optional(std::size_t i) const { return i < x.size() ? x[i] : Variable(); }
};
using Function = std::function<Variable(const Case&)>;
using Functions = std::map<std::string, Function>;

template <class Op>
Function of_one(Op op) {
  return [op](const Case& c) { return op(c.x.at(0)); };
}
template <class Op>
Function of_two(Op op) {
  return [op](const Case& c) { return op(c.x.at(0), c.x.at(1)); };
}
template <class Op>
Function over_axes(Op op) {
  return [op](const Case& c) { return op(c.x.at(0), c.axes(), c.get<bool>("keepdim")); };
}
Function pooled(PoolingMode mode) {
  return [mode](const Case& c) { return ag::pooling(mode, c.x.at(0), c.tensor("i0")); };
}
template <class Correlation>
Function correlation(Correlation op) {
  return [op](const Case& c) {
    const auto a = c.x.at(0).tensor().to_vector<double>();
    const auto b = c.x.at(1).tensor().to_vector<double>();
    return Variable(tensor(std::vector<double>{op(a, b)}, Shape{1}));
  };
}

void add_elementwise(Functions& f) {
  f["neg"] = of_one(ag::neg), f["abs"] = of_one(ag::abs), f["exp"] = of_one(ag::exp);
  f["log"] = of_one(ag::log), f["sqrt"] = of_one(ag::sqrt), f["rsqrt"] = of_one(ag::rsqrt);
  f["tanh"] = of_one(ag::tanh), f["sigmoid"] = of_one(ag::sigmoid), f["relu"] = of_one(ag::relu);
  f["gelu"] = of_one(ag::gelu), f["square"] = of_one(ag::square);
  f["reciprocal"] = of_one(ag::reciprocal), f["sin"] = of_one(ag::sin), f["cos"] = of_one(ag::cos);
  f["log1p"] = of_one(ag::log1p);
  f["add"] = of_two(ag::add), f["sub"] = of_two(ag::sub), f["mul"] = of_two(ag::mul);
  f["div"] = of_two(ag::div), f["maximum"] = of_two(ag::maximum);
  f["minimum"] = of_two(ag::minimum);
  f["pow"] = of_two([](const Variable& a, const Variable& b) { return ag::pow(a, b); });
  f["where"] = [](const Case& c) {
    return ag::where(c.tensor("i0").to(DType::u8), c.x.at(0), c.x.at(1));
  };
}

void add_rows(Functions& f) {
  f["sum"] = over_axes(ag::sum), f["mean"] = over_axes(ag::mean);
  f["max"] = over_axes(ag::max), f["min"] = over_axes(ag::min);
  f["softmax"] = of_one(ag::softmax), f["log_softmax"] = of_one(ag::log_softmax);
  f["normalize"] = [](const Case& c) { return ag::normalize(c.x.at(0), c.get<double>("eps")); };
  f["layer_norm"] = [](const Case& c) {
    return ag::layer_norm(c.x.at(0), c.x.at(1), c.x.at(2), c.get<double>("eps"));
  };
  f["residual_layer_norm"] = [](const Case& c) {
    return ag::residual_dropout_layer_norm(c.x.at(0), c.x.at(1), {}, {}, c.x.at(2), c.x.at(3),
                                           c.get<double>("eps"));
  };
  f["cosine_similarity"] = [](const Case& c) {
    return ag::cosine_similarity(c.x.at(0), c.x.at(1), c.get<double>("eps"));
  };
  f["cross_entropy"] = [](const Case& c) {
    return ag::cross_entropy(c.x.at(0), c.tensor("i0"), c.get<double>("divisor"));
  };
  f["mean_pooling"] = pooled(PoolingMode::mean), f["cls_pooling"] = pooled(PoolingMode::cls);
  f["max_pooling"] = pooled(PoolingMode::max);
  f["pearson"] = correlation(train::pearson), f["spearman"] = correlation(train::spearman);
}

void add_products(Functions& f) {
  f["matmul"] = [](const Case& c) {
    return ag::matmul(c.x.at(0), c.x.at(1), {c.get<bool>("trans_a"), c.get<bool>("trans_b")});
  };
  f["linear"] = [](const Case& c) { return ag::linear(c.x.at(0), c.x.at(1), c.optional(2)); };
  f["linear_gelu"] = [](const Case& c) {
    return ag::linear_gelu(c.x.at(0), c.x.at(1), c.optional(2));
  };
  f["conv2d"] = [](const Case& c) {
    return ag::conv2d(c.x.at(0), c.x.at(1), c.optional(2),
                      {c.get<std::int64_t>("stride"), c.get<std::int64_t>("padding")});
  };
  f["max_pool2d"] = [](const Case& c) {
    return ag::max_pool2d(c.x.at(0), c.get<std::int64_t>("kernel"), c.get<std::int64_t>("stride"));
  };
  f["attention"] = [](const Case& c) {
    return ag::attention(c.x.at(0), c.optional(1), c.tensor("i0"),
                         {.heads = c.get<std::int64_t>("heads")});
  };
}

void add_lookups(Functions& f) {
  f["embedding"] = [](const Case& c) { return ag::embedding(c.x.at(0), c.tensor("i0")); };
  f["gather"] = [](const Case& c) { return ag::gather(c.x.at(0), c.axis(), c.tensor("i0")); };
  f["index_select"] = [](const Case& c) {
    return ag::index_select(c.x.at(0), c.axis(), c.tensor("i0"));
  };
  f["scatter_add"] = [](const Case& c) {
    return ag::scatter_add(c.x.at(0), c.axis(), c.tensor("i0"), c.x.at(1));
  };
  f["concat"] = [](const Case& c) { return ag::concat(c.x, c.axis()); };
  f["stack"] = [](const Case& c) { return ag::stack(c.x, c.axis()); };
  f["permute"] = [](const Case& c) { return ag::permute(c.x.at(0), c.axes()); };
  f["pad"] = [](const Case& c) {
    return ag::pad(c.x.at(0), c.axis(), c.get<std::int64_t>("before"),
                   c.get<std::int64_t>("after"));
  };
  f["argmax"] = [](const Case& c) { return Variable(argmax(c.x.at(0).tensor(), c.axis())); };
}

void run(Case& c, const Functions& functions, NamedTensors& results) {
  for (int i = 0; i < c.get<int>("inputs"); ++i)
    c.x.emplace_back(c.tensor(str("x", i)), /*requires_grad=*/true);
  const Variable y = functions.at(c.get<std::string>("op"))(c);
  NamedTensors own{{c.name + "/y", y.tensor()}};
  if (y.requires_grad()) {
    y.backward(c.tensor("grad"));
    for (std::size_t i = 0; i < c.x.size(); ++i)
      own.emplace_back(str(c.name, "/g", i), c.x[i].grad());
  }
  results.insert(results.end(), own.begin(), own.end());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) fail_input("expected INPUT.safetensors OUTPUT.safetensors");
  Functions functions;
  add_elementwise(functions), add_rows(functions), add_products(functions), add_lookups(functions);
  const SafeTensors file = SafeTensors::open(argv[1]);
  NamedTensors results;
  for (std::string line; std::getline(std::cin, line);) {
    const auto attributes = Json::parse(line);
    Case c{attributes, attributes.at("case").get<std::string>(), file, {}};
    try {
      run(c, functions, results);
    } catch (const Error& error) {
      std::printf("%s %s\n", c.name.c_str(), error.what());
    }
  }
  save_safetensors(argv[2], results);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
