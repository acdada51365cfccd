// FSDP's units, selected by class or by size.
#include <doctest/doctest.h>

#include "every_strategy.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/train/parallel/memory_need.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const nn::UnitPolicy kByClass{.classes = {"MPNetLayer"}};
// Layers have 28,800 elements; embeddings, heads and single matrices fewer than 10,000.
const nn::UnitPolicy kBySize{.min_numel = 10000};
const nn::UnitPolicy kPairs{.classes = {"MPNetLayer"}, .min_numel = 3000};

std::vector<std::string> layers_of(const nn::Arena& arena) {
  std::vector<std::string> names;
  for (const nn::Unit& unit : arena.units())
    if (unit.layer) names.push_back(unit.name);
  return names;
}

}  // namespace

TEST_CASE("units are modules of a class, or those with enough parameters from the innermost out") {
  const std::vector<std::string> layers{"encoder.layer.0", "encoder.layer.1", "encoder.layer.2"};
  const auto planned = [](const nn::UnitPolicy& policy) {
    const tiny::Model model;
    return layers_of(*nn::plan(*model.loss, policy));
  };
  CHECK(planned(kByClass) == layers);
  CHECK(planned(kBySize) == layers);
  CHECK(message_of([&] {
          planned({.classes = {"MPNetLayer", "BertLayer"}});
        }).starts_with("fsdp_units: no module is a 'BertLayer'; expected some of "));
  // The word embeddings have 64 x 48 elements.
  CHECK(planned(kPairs) == std::vector<std::string>{"embeddings", layers[0], layers[1], layers[2]});
  CHECK(planned({}) == planned(kPairs));
  const std::vector<std::string> nested = planned({.min_numel = 4500});
  REQUIRE(nested.size() == 9);  // two large matrices of each layer, and its rest
  CHECK(nested[0] == layers[0]);
  CHECK(nested[1] == layers[0] + ".intermediate.dense");
  CHECK(nested[2] == layers[0] + ".output.dense");
}

TEST_CASE("with chosen units FSDP ends with the bits of DDP over the same ones") {
  for (const nn::UnitPolicy& units : {kByClass, kBySize, kPairs}) {
    const auto ddp = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      nn::plan(*model.loss, units);
      const DistributedDataParallel parallel(*model.loss, group);
      tiny::train_rank(model, tiny::loader_options(group.rank(), 2));
    });
    const auto fsdp = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const FullySharded parallel(*model.loss, group, {.units = units});
      const auto before = group.stats().collectives;
      tiny::train_rank(model, tiny::loader_options(group.rank(), 2));
      CHECK(group.stats().collectives > before);
    });
    for (const tiny::Bits& bits : fsdp) CHECK(bits == ddp[0]);
  }
}

TEST_CASE("under FSDP a matrix that is used without its unit's call is an error on the host") {
  tiny::run(2, {}, [](tiny::Model& model, const comm::Group& group) {
    const FullySharded parallel(*model.loss, group, {.units = kByClass});
    int matrices = 0;
    for (const nn::Parameter& parameter : model.loss->parameters()) {
      if (parameter.name().ends_with("classifier.weight"))
        CHECK(message_of([&] { parameter.tensor().to_vector(); })
                  .find(str("its parameter '", parameter.name(),
                            "' was used: read it in the "
                            "module's forward, or read it whole, by nn::WholeParameters on every "
                            "rank")) != std::string::npos);
      const bool is_layers = parameter.name().find("encoder.layer.1.") != std::string::npos;
      if (!is_layers || parameter.shape().dim() != 2) continue;
      const Tensor x = zeros({3, parameter.shape()[1]});
      CHECK(message_of([&] { matmul(x, parameter.tensor(), {.trans_b = true}); })
                .find(str("[fsdp] 'encoder.layer.1' is a unit, but its parameter '",
                          parameter.name(), "' was used without calling it")) == 0);
      ++matrices;
    }
    CHECK(matrices == 6);
  });
}

TEST_CASE("fewer units are whole for longer: what FSDP needs follows from the policy") {
  const auto whole = [](const nn::UnitPolicy& policy) {
    const tiny::Model model;
    return memory_need(Strategy::fsdp, *model.loss, 2, 2, policy).whole;
  };
  CHECK(whole({.classes = {"Encoder"}}) > whole(kByClass));
}

TEST_CASE("units that cannot be are refused, naming why" * doctest::test_suite("host")) {
  tiny::run(2, {}, [](tiny::Model& model, const comm::Group& group) {
    const AdamW optimizer(*model.loss, tiny::adamw());
    CHECK(message_of([&] {
            FullySharded(*model.loss, group, {.units = kByClass});
          }).find("the module was cut into other units than are asked for now") !=
          std::string::npos);
  });
  // A layer multiplies by this matrix without calling the module around it.
  tiny::run(2, {}, [](tiny::Model& model, const comm::Group& group) {
    const FullySharded parallel(*model.loss, group, {.units = {.min_numel = 4500}});
    tiny::Training training(model, group);
    const auto before = group.stats().collectives;
    CHECK(message_of([&] { training.forward(); })
              .find("'encoder.layer.0.intermediate.dense' is a unit, but its parameter "
                    "'encoder.layer.0.intermediate.dense.") != std::string::npos);
    CHECK(group.stats().collectives > before);
  });
}
