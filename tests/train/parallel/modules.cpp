// Modules after the pooling under every strategy.
#include <doctest/doctest.h>

#include "../../files.h"
#include "every_strategy.h"
#include "ringlet/models/modules/dense.h"
#include "ringlet/models/modules/dropout.h"
#include "ringlet/models/modules/layer_norm.h"
#include "ringlet/models/modules/normalize.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

namespace modules = models::modules;

void add_modules(tiny::Model& model) {
  model.train(
      {std::make_shared<models::SentenceModules>(
           model.encoder.transformer(), PoolingMode::mean,
           models::SentenceModules::After{
               std::make_shared<modules::Dense>(48, 20), std::make_shared<modules::LayerNorm>(20),
               std::make_shared<modules::Dropout>(0.2), std::make_shared<modules::Normalize>()}),
       model.encoder.tokenizer()});
}

std::map<std::string, std::vector<float>> values(const nn::Module& module) {
  std::map<std::string, std::vector<float>> all;
  nn::WholeParameters whole(module);
  for (const auto& [name, parameter] : module.named_parameters())
    if (name.starts_with("modules.")) all[name] = whole(parameter).to_vector();
  return all;
}

/// Trains under a strategy; `after` is called while it is attached.
tiny::TrainRank training_modules(
    const tiny::Parallel& parallel,
    const std::function<void(tiny::Model&, const comm::Group&)>& after = {}) {
  return [=](tiny::Model& model, const comm::Group& group) {
    add_modules(model);
    const auto attached = parallel.attach(model, group);
    const auto before = values(*model.loss);
    CHECK(before.size() == 4);
    tiny::train_rank(model, tiny::loader_options(group.rank(), group.size()), {false});
    for (const auto& [name, value] : values(*model.loss)) CHECK(value != before.at(name));
    if (after) after(model, group);
  };
}

}  // namespace

TEST_CASE("modules after the pooling are trained to the same bits by every strategy") {
  for (const int n : {2, 3}) {
    CAPTURE(n);
    tiny::Model model;
    add_modules(model);
    SentenceDataParallel dp(*model.loss, tiny::devices(n));
    tiny::train_rank(model, tiny::whole_batches(n), {false});
    const tiny::Bits expected = tiny::bits(*model.loss);
    for (const tiny::Parallel& parallel : tiny::every_strategy()) {
      CAPTURE(parallel.name);
      for (const tiny::Bits& bits : tiny::run(n, {}, training_modules(parallel)))
        CHECK(bits == expected);
    }
  }
}

TEST_CASE("modules after the pooling encode and are saved whole while a strategy shards them") {
  const std::vector<std::string> texts{"a b c", "d", "b b a d"};
  for (const tiny::Parallel& parallel : tiny::every_strategy()) {
    CAPTURE(parallel.name);
    const TemporaryFolder folder;
    Tensor embeddings;
    tiny::run(2, {}, training_modules(parallel, [&](tiny::Model& model, const comm::Group& group) {
                const Tensor mine = model.encoder.encode(texts);  // (3, 20)
                model.encoder.save(folder / "model");
                if (group.rank() == 0) embeddings = mine;
              }));
    const auto saved = models::SentenceEncoder::from_pretrained(folder / "model");
    CHECK(saved.encode(texts).to_vector() == embeddings.to_vector());
  }
}
