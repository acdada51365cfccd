// LoRA in every query and value projection, the rest frozen, under the strategies.
#include "ringlet/nn/lora.h"

#include <doctest/doctest.h>

#include "../../files.h"
#include "../../oracle.h"
#include "every_strategy.h"
#include "ringlet/core/io/file.h"
#include "ringlet/nn/module_file.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

bool is_trained(const std::string& name) {
  return name.find("lora_") != std::string::npos || name.find("classifier") != std::string::npos;
}

void adapt(tiny::Model& model) {
  CHECK(nn::add_lora(*model.encoder.transformer(),
                     {.r = 4, .alpha = 8, .target_modules = {"attn.q", "attn.v"}}) == 6);
}

/// Every parameter whole, by name; collective.
std::map<std::string, std::vector<float>> by_name(const nn::Module& module) {
  std::map<std::string, std::vector<float>> all;
  nn::WholeParameters whole(module);
  for (const auto& [name, parameter] : module.named_parameters())
    all[name] = whole(parameter).to_vector();
  return all;
}

// Adapts, trains ten steps under the strategy, and calls `after` while it is attached.
tiny::TrainRank training(const tiny::Parallel& parallel,
                         const std::function<void(tiny::Model&, const comm::Group&)>& after = {}) {
  return [=](tiny::Model& model, const comm::Group& group) {
    adapt(model);
    const auto attached = parallel.attach(model, group);
    const auto before = by_name(*model.loss);
    tiny::train_rank(model, tiny::loader_options(group.rank(), group.size()), {false});
    for (const auto& [parameter, value] : by_name(*model.loss)) {
      const std::string& name = parameter;
      CAPTURE(name);
      CHECK((value != before.at(name)) == is_trained(name));
    }
    if (after) after(model, group);
  };
}

}  // namespace

TEST_CASE("LoRA: every strategy trains the factors to the same bits and leaves the rest alone") {
  tiny::Bits expected;
  for (const tiny::Parallel& parallel : tiny::every_strategy()) {
    CAPTURE(parallel.name);
    for (const tiny::Bits& bits : tiny::run(2, {}, training(parallel))) {
      if (expected.empty()) expected = bits;
      CHECK(bits == expected);
    }
  }
  tiny::Model model;
  adapt(model);
  SentenceDataParallel dp(*model.loss, tiny::devices(2));
  tiny::train_rank(model, tiny::whole_batches(2), {false});
  CHECK(tiny::bits(*model.loss) == expected);
}

TEST_CASE("LoRA is saved merged under FSDP and DDP, a head in one call, and both are read again") {
  for (const tiny::Parallel& parallel : {tiny::parallel<DistributedDataParallel>("DDP", {}),
                                         tiny::parallel<FullySharded>("FSDP", {})}) {
    CAPTURE(parallel.name);
    const TemporaryFolder folder;
    const std::vector<std::string> texts{"a b c", "d", "b b a d"};
    Tensor unmerged;
    tiny::Bits head;
    tiny::run(2, {}, training(parallel, [&](tiny::Model& model, const comm::Group& group) {
                const Tensor mine = model.encoder.encode(texts);
                model.encoder.save(folder / "merged");
                nn::save_module(*model.loss, folder / "whole.safetensors");
                nn::save_lora(*model.encoder.transformer(), folder / "adapter");
                if (group.rank() == 0) unmerged = mine;
              }));
    const auto merged = models::SentenceEncoder::from_pretrained(folder / "merged");
    check_close(merged.encode(texts), unmerged, 64 * kF32);
    CHECK(SafeTensors::open(folder / "merged").names().size() ==
          tiny::Model().encoder.transformer()->named_parameters().size());

    tiny::Model again(7);
    adapt(again);
    nn::load_module(*again.loss, folder / "whole.safetensors");
    CHECK(again.encoder.encode(texts).to_vector() == unmerged.to_vector());

    const tiny::Model base;
    CHECK(nn::load_lora(*base.encoder.transformer(), folder / "adapter") == 6);
    CHECK(base.encoder.encode(texts).to_vector() == unmerged.to_vector());
  }
}

TEST_CASE("a checkpoint under LoRA has no frozen parameters, and is for their values alone") {
  const TemporaryFolder folder;
  std::string expected;
  for (const auto& attach : tiny::each_strategy()) {
    std::map<std::string, std::vector<float>> trained;
    tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      adapt(model);
      const tiny::Attached attached = attach(*model.loss, group);
      tiny::Training training(model, group);
      training.step();
      TrainerState state;
      state.step = 1;
      save_checkpoint(folder / "c", *model.loss, training.optimizer, state);
      const auto all = by_name(*model.loss);
      if (group.rank() == 0) trained = all;
    });
    const SafeTensors file = SafeTensors::open(folder / "c/model.safetensors");
    CHECK(std::ranges::all_of(file.names(), is_trained));
    const std::string bytes = read_file(folder / "c/model.safetensors");
    if (expected.empty()) expected = bytes;
    CHECK((bytes == expected));

    tiny::Model same, other(7);
    for (tiny::Model* model : {&same, &other}) adapt(*model);
    AdamW optimizer(*same.loss, tiny::adamw()), others(*other.loss, tiny::adamw());
    load_checkpoint(folder / "c", *same.loss, optimizer);
    CHECK(by_name(*same.loss) == trained);
    const auto before = by_name(*other.loss);
    CHECK_THROWS_WITH_AS(load_checkpoint(folder / "c", *other.loss, others),
                         doctest::Contains("the parameters that are not trained: expected those"),
                         InputError);
    CHECK(by_name(*other.loss) == before);
  }
}
