#include "ringlet/nn/module_file.h"

#include <doctest/doctest.h>

#include "../files.h"
#include "ringlet/nn/linear.h"
#include "ringlet/tests/message.h"

using namespace ringlet;
using namespace ringlet::nn;

namespace {

struct Head final : Module {
  explicit Head(bool counts = true) {
    register_module("dense", std::make_shared<Linear>(4, 2));
    if (counts) register_buffer("calls", zeros({1}, DType::i64));
  }
};

}  // namespace

TEST_CASE("a module is saved and read in one call each") {
  const TemporaryFolder folder;
  const Head saved;
  saved.buffer("calls").mutable_tensor().fill_(3);
  save_module(saved, folder / "head.safetensors");
  Head read;
  load_module(read, folder / "head.safetensors");
  for (const char* name : {"dense.weight", "dense.bias"})
    CHECK(read.parameter(name).tensor().to_vector() == saved.parameter(name).tensor().to_vector());
  CHECK(read.buffer("calls").item<std::int64_t>() == 3);
}

TEST_CASE("a file with other tensors than the module's is refused, and nothing is changed") {
  const TemporaryFolder folder;
  const std::string file = (folder / "head.safetensors").string();
  save_module(Head(), file);
  const auto refusal = [&](Module& module) -> std::string {
    const Variable first = module.parameters().front();
    const std::vector<float> before = first.tensor().to_vector();
    const std::string message = message_of<InputError>([&] { load_module(module, file); });
    CHECK(first.tensor().to_vector() == before);
    return message;
  };
  Linear linear(4, 2);
  CHECK(refusal(linear) == file + ": has no tensor 'weight'");
  Head fewer(false);
  CHECK(refusal(fewer) == file + ": tensor 'calls' is no parameter of this model");
  struct Wide final : Module {
    Wide() { register_module("dense", std::make_shared<Linear>(5, 2)); }
  } wide;
  CHECK(refusal(wide) == file + ": tensor 'dense.weight': expected shape (2, 5), found (2, 4)");
  CHECK_THROWS_AS(load_module(fewer, folder / "missing.safetensors"), InputError);
}
