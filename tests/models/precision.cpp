// The error of a whole model's loss and gradients in bf16, and between instruction sets. Its bound
// is the sum of the roundings; one changes a tensor by at most u of its norm. Layers are assumed
// not to amplify errors, as LayerNorms keep the residual stream at one size.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "../device.h"
#include "../files.h"
#include "oracle_batch.h"
#include "ringlet/core/cpu/isa.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

constexpr const char* kModels[] = {"bert", "mpnet"};
constexpr const char* kFileVariable = "RINGLET_TEST_GRADIENTS_TO";

// The loss of the oracle's first pairs without dropout, and the gradient of each parameter.
NamedTensors gradients_of(const std::string& name, DType dtype) {
  const Oracle oracle(name);
  const SentenceEncoder encoder = load_unnormalized(name);
  encoder.transformer()->set_compute_dtype(dtype);
  SoftmaxLoss loss(encoder, 3);
  start_from_oracle(oracle, loss);
  return loss_and_gradients(loss, pair_batch(oracle, 0));
}

// Tensors rounded from a parameter to the loss and back. A layer has 14 each way: query, key and
// value; attention weights and their weighted sums; its projection; two LayerNorms and their saved
// values; two products and GELU; four matrices. Embeddings have two.
double roundings_of(const std::string& name) {
  return 28.0 * static_cast<double>(load(name).config().num_hidden_layers) + 4;
}

double norm(const std::vector<double>& x) {
  double squares = 0;
  for (double value : x) squares += value * value;
  return std::sqrt(squares);
}

// Checks |a - b| <= allowed |b| for each tensor. Key biases have gradients that cancel to 0 in
// theory; their bound uses the largest gradient of all.
void check_near(const NamedTensors& a, const NamedTensors& b, double allowed) {
  REQUIRE(a.size() == b.size());
  double largest = 0, worst = 0;
  for (std::size_t i = 1; i < b.size(); ++i)
    largest = std::max(largest, norm(b[i].second.to_vector<double>()));
  for (std::size_t i = 0; i < b.size(); ++i) {
    const std::string& name = b[i].first;
    REQUIRE(a[i].first == name);
    std::vector<double> difference = a[i].second.to_vector<double>();
    const std::vector<double> expected = b[i].second.to_vector<double>();
    for (std::size_t j = 0; j < expected.size(); ++j) difference[j] -= expected[j];
    const bool cancels = name.ends_with("key.bias") || name.ends_with("k.bias");
    const double share = norm(difference) / (cancels ? largest : norm(expected));
    CHECK_MESSAGE(share <= allowed, name, " is off by ", share, ", allowed ", allowed);
    worst = std::max(worst, share);
  }
  CHECK(worst > 0);  // otherwise equal results were compared
  MESSAGE("off by " << worst << " at most, allowed " << allowed);
}

}  // namespace

TEST_CASE("activations in bf16 move a model's gradients by no more than their roundings") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    // In the worst case all have one direction: |u - v| keeps few of the bits that u and v share.
    check_near(gradients_of(name, DType::bf16), gradients_of(name, DType::f32),
               roundings_of(name) * kBF16);
  }
}

// Run by the next case, in a process with another instruction set.
TEST_CASE_FIXTURE(OnCpu, "a model's gradients to files" * doctest::skip()) {
  const char* folder = std::getenv(kFileVariable);
  REQUIRE(folder != nullptr);
  for (const std::string name : kModels)
    save_safetensors(std::filesystem::path(folder) / name, gradients_of(name, DType::f32));
}

TEST_CASE_FIXTURE(OnCpu, "instruction sets give a model's gradients but for the order of sums") {
  // The reference of the others.
  if (cpu::isa() == cpu::Isa::portable || !cpu::supported(cpu::Isa::portable)) return;
  const TemporaryFolder folder;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      str("RINGLET_ISA=portable ", kFileVariable, "='", folder.path().string(), "' '", program,
          "' --no-skip --test-case='a model*to files' > '", (folder / "log").string(), "'");
  REQUIRE(std::system(command.c_str()) == 0);
  for (const std::string name : kModels) {
    CAPTURE(name);
    const SafeTensors file = SafeTensors::open(folder / name);
    NamedTensors portable, here = gradients_of(name, DType::f32);
    for (const auto& [parameter, gradient] : here)
      portable.emplace_back(parameter, file.load(parameter));
    // Each tensor consists of sums; their terms and partial sums are rounded on both sides. These
    // are too many roundings for one direction. The mean square error of one is u / sqrt(3); three
    // times the root of their sum is allowed.
    const double terms = static_cast<double>(load(name).config().intermediate_size);
    check_near(here, portable, 3 * std::sqrt(roundings_of(name) * 2 * 2 * terms / 3) * kF32);
  }
}
