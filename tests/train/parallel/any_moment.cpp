// encode and save at every point of a step, on all ranks, and on one rank alone.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "../../files.h"
#include "every_strategy.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// Some texts on each rank, more on later ranks, and one on all ranks.
std::vector<std::string> texts_of(int rank) {
  std::vector<std::string> texts{"a b c"};
  for (int i = 0; i < rank; ++i) texts.push_back("d c");
  return texts;
}

/// Ten steps that encode and save between forward and backward, under no_sync and after the last
/// backward. The results may change only with the updates.
void train_looking(tiny::Model& model, const LoaderOptions& options, int rank,
                   const std::filesystem::path& folder) {
  tiny::Training training(model, options);
  std::vector<float> before;
  for (int step = 0; step < tiny::kSteps; ++step) {
    std::vector<std::vector<float>> seen;
    const auto look = [&] {
      seen.push_back(model.encoder.encode(texts_of(rank)).to_vector());
      if (step + 1 < tiny::kSteps) return;
      model.encoder.save(folder / "model");
      const SafeTensors file = SafeTensors::open(folder / "model");
      const std::string name = "encoder.layer.1.output.dense.weight";
      nn::WholeParameters whole(*model.loss);
      const Tensor now = whole(model.encoder.transformer()->parameter(name));
      CHECK(file.load(name).to_vector() == now.to_vector());
    };
    {
      const NoSync no_sync(*model.loss);
      const Variable value = training.forward();
      look();
      value.backward();
      look();
    }
    const Variable value = training.forward();
    look();
    value.backward();
    look();
    for (const std::vector<float>& one : seen) CHECK(one == seen[0]);
    CHECK(before != seen[0]);
    before = seen[0];
    training.update();
  }
}

/// The error of a rank that calls `call` while its peer computes something else.
std::string alone(const std::function<void(tiny::Model&)>& call) {
  std::string said;
  const comm::GroupOptions options{.timeout = std::chrono::seconds(1)};
  const auto rank_main = [&](tiny::Model& model, const comm::Group& group) {
    const FullySharded fsdp(*model.loss, group);
    group.barrier();
    if (group.rank() == 1) {
      while (!group.store().raised()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    said = message_of([&] { call(model); });
  };
  CHECK_THROWS_AS(tiny::run(2, options, rank_main), Error);  // rank 1 receives it, too
  return said;
}

}  // namespace

TEST_CASE("encode and save work at any moment, and leave no trace in what follows") {
  const tiny::Backwards backwards{true, false};
  const tiny::Bits expected = tiny::virtual_ranks(2, backwards);
  for (const tiny::Parallel& strategy : tiny::every_strategy()) {
    CAPTURE(strategy.name);
    const TemporaryFolder folder;
    const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const auto attached = strategy.attach(model, group);
      train_looking(model, tiny::loader_options(group.rank(), 2), group.rank(), folder.path());
    });
    for (const tiny::Bits& bits : ranks) CHECK(bits == expected);
  }
}

TEST_CASE("under DP, too") {
  const TemporaryFolder folder;
  tiny::Model model;
  const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
  train_looking(model, tiny::whole_batches(2), 0, folder.path());
  CHECK(tiny::bits(*model.loss) == tiny::virtual_ranks(2, {true, false}));
}

TEST_CASE("under FSDP a call on one rank alone fails by the deadline and names the missing ranks") {
  const TemporaryFolder folder;
  const std::vector<std::function<void(tiny::Model&)>> calls{
      [](tiny::Model& model) { static_cast<void>(model.encoder.encode("a b")); },
      [&](tiny::Model& model) { model.encoder.save(folder / "model"); }};
  for (const auto& call : calls) {
    const std::string said = alone(call);
    MESSAGE(said);
    CHECK(said.find("[all_gather]") != std::string::npos);
    CHECK(said.find("missing: 1") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder / "model"));
    CHECK(folder.entries() == 0);
  }
}
