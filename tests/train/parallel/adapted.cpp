// Models that were changed, under the strategies: LoRA in every query and value projection, the
// rest frozen; modules after the pooling.
#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include "../../files.h"
#include "../../oracle.h"
#include "every_strategy.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/modules/after_pooling.h"
#include "ringlet/train/checkpoint/checkpoint.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

namespace modules = models::modules;

bool is_trained(const std::string& name) {
  return name.find("lora_") != std::string::npos || name.find("classifier") != std::string::npos;
}

void adapt(tiny::Model& model) {
  CHECK(nn::add_lora(*model.encoder.transformer(),
                     {.r = 4, .alpha = 8, .target_modules = {"attn.q", "attn.v"}}) == 6);
}

void add_modules(tiny::Model& model) {
  model.train(
      {std::make_shared<models::SentenceModules>(
           model.encoder.transformer(), PoolingMode::mean,
           models::SentenceModules::After{
               std::make_shared<modules::Dense>(48, 20), std::make_shared<modules::LayerNorm>(20),
               std::make_shared<modules::Dropout>(0.2), std::make_shared<modules::Normalize>()}),
       model.encoder.tokenizer()});
}

struct Change {
  void (*make)(tiny::Model&);
  /// Whether a parameter is trained; nothing where it is not the change's.
  std::optional<bool> (*trains)(const std::string& name);
};

const Change kLora{adapt, [](const std::string& name) { return std::optional(is_trained(name)); }};
const Change kModules{add_modules, [](const std::string& name) {
                        return name.starts_with("modules.") ? std::optional(true) : std::nullopt;
                      }};

/// Every parameter whole, by name; collective.
std::map<std::string, std::vector<float>> by_name(const nn::Module& module) {
  std::map<std::string, std::vector<float>> all;
  nn::WholeParameters whole(module);
  for (const auto& [name, parameter] : module.named_parameters())
    all[name] = whole(parameter).to_vector();
  return all;
}

/// Changes, trains ten steps under the strategy, and calls `after` while it is attached.
tiny::TrainRank changed_training(
    const tiny::Parallel& parallel, const Change& change,
    const std::function<void(tiny::Model&, const comm::Group&)>& after = {}) {
  return [=](tiny::Model& model, const comm::Group& group) {
    change.make(model);
    const auto attached = parallel.attach(model, group);
    const auto before = by_name(*model.loss);
    tiny::train_rank(model, tiny::loader_options(group.rank(), group.size()), {false});
    std::size_t trained = 0;
    for (const auto& [parameter, value] : by_name(*model.loss)) {
      const std::string& name = parameter;
      CAPTURE(name);
      const std::optional<bool> expected = change.trains(name);
      if (!expected) continue;
      CHECK((value != before.at(name)) == *expected);
      trained += *expected;
    }
    CHECK(trained >= 4);
    if (after) after(model, group);
  };
}

void check_bits(int n, const Change& change) {
  tiny::Model model;
  change.make(model);
  const SentenceDataParallel dp(*model.loss, tiny::devices(n));
  tiny::train_rank(model, tiny::whole_batches(n), {false});
  const tiny::Bits expected = tiny::bits(*model.loss);
  for (const tiny::Parallel& parallel : tiny::every_strategy()) {
    CAPTURE(n);
    CAPTURE(parallel.name);
    for (const tiny::Bits& bits : tiny::run(n, {}, changed_training(parallel, change)))
      CHECK(bits == expected);
  }
}

const std::vector<std::string> kSentences{"a b c", "d", "b b a d"};

}  // namespace

TEST_CASE("LoRA: every strategy trains the factors to the same bits and leaves the rest alone") {
  check_bits(2, kLora);
}

TEST_CASE("modules after the pooling are trained to the same bits by every strategy") {
  for (const int n : {2, 3}) check_bits(n, kModules);
}

TEST_CASE("modules after the pooling encode and are saved whole while a strategy shards them") {
  for (const tiny::Parallel& parallel : tiny::every_strategy()) {
    CAPTURE(parallel.name);
    const TemporaryFolder folder;
    Tensor embeddings;
    const auto encode = [&](tiny::Model& model, const comm::Group& group) {
      const Tensor mine = model.encoder.encode(kSentences);  // (3, 20)
      model.encoder.save(folder / "model");
      if (group.rank() == 0) embeddings = mine;
    };
    tiny::run(2, {}, changed_training(parallel, kModules, encode));
    const auto saved = models::SentenceEncoder::from_pretrained(folder / "model");
    CHECK(saved.encode(kSentences).to_vector() == embeddings.to_vector());
  }
}

TEST_CASE("LoRA is saved merged under FSDP and DDP, a head in one call, and both are read again") {
  for (const tiny::Parallel& parallel : {tiny::parallel<DistributedDataParallel>("DDP", {}),
                                         tiny::parallel<FullySharded>("FSDP", {})}) {
    CAPTURE(parallel.name);
    const TemporaryFolder folder;
    Tensor unmerged;
    const auto save = [&](tiny::Model& model, const comm::Group& group) {
      const Tensor mine = model.encoder.encode(kSentences);
      model.encoder.save(folder / "merged");
      nn::save_module(*model.loss, folder / "whole.safetensors");
      nn::save_lora(*model.encoder.transformer(), folder / "adapter");
      if (group.rank() == 0) unmerged = mine;
    };
    tiny::run(2, {}, changed_training(parallel, kLora, save));
    const auto merged = models::SentenceEncoder::from_pretrained(folder / "merged");
    check_close(merged.encode(kSentences), unmerged, 64 * kF32);
    CHECK(SafeTensors::open(folder / "merged").names().size() ==
          tiny::Model().encoder.transformer()->named_parameters().size());

    tiny::Model again(7);
    adapt(again);
    nn::load_module(*again.loss, folder / "whole.safetensors");
    CHECK(again.encoder.encode(kSentences).to_vector() == unmerged.to_vector());

    const tiny::Model base;
    CHECK(nn::load_lora(*base.encoder.transformer(), folder / "adapter") == 6);
    CHECK(base.encoder.encode(kSentences).to_vector() == unmerged.to_vector());
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
