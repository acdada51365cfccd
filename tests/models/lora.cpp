// LoRA inside a published encoder, compared with the same factors in PyTorch
// (scripts/oracles/lora.py).
#include "ringlet/nn/lora.h"

#include <doctest/doctest.h>

#include "../files.h"
#include "oracle_batch.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/encoder_layer.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

/// The oracle's folder, with the oracle's factors at every query and value projection.
SentenceEncoder adapted(const std::string& name, const Oracle& oracle) {
  const SentenceEncoder encoder = load(name);
  const bool bert = name == "bert";
  const nn::LoraOptions options{
      .r = 4,
      .alpha = 8,
      .target_modules = {bert ? "attention.self.query" : "attn.q", bert ? "value" : "v"}};
  const std::size_t layers = static_cast<std::size_t>(encoder.config().num_hidden_layers);
  CHECK(nn::add_lora(*encoder.transformer(), options) == 2 * layers);
  for (const nn::NamedParameter& named : encoder.transformer()->named_parameters()) {
    const bool lora = named.name.find(".lora_") != std::string::npos;
    CHECK(named.parameter.requires_grad() == lora);
    if (lora) named.parameter.mutable_tensor().copy_(oracle.tensor(name + "/" + named.name));
  }
  return encoder;
}

}  // namespace

TEST_CASE("LoRA in every query and value: PyTorch's embeddings, unmerged and from the folder") {
  const Oracle oracle("lora");
  for (const std::string name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const SentenceEncoder encoder = adapted(name, oracle);
    const Tensor expected = oracle.tensor(name + "/embeddings");
    check_close(encoder.encode(oracle_sentences()).to(default_device()), expected, 64 * kF32);

    const TemporaryFolder folder;
    encoder.save(folder / "merged");
    const SentenceEncoder merged = SentenceEncoder::from_pretrained(folder / "merged");
    CHECK(merged.unused_names().empty());
    check_close(merged.encode(oracle_sentences()).to(default_device()), expected, 64 * kF32);
    std::set<std::string> plain;
    for (const auto& named : load(name).transformer()->named_parameters()) plain.insert(named.name);
    const std::vector<std::string> names = SafeTensors::open(folder / "merged").names();
    CHECK(std::set<std::string>(names.begin(), names.end()) == plain);
  }
}

TEST_CASE("LoRA's factors are saved alone and read again, in PEFT's format") {
  const Oracle oracle("lora");
  const TemporaryFolder folder;
  const std::filesystem::path adapter = folder / "adapter";
  const SentenceEncoder encoder = adapted("bert", oracle);
  nn::save_lora(*encoder.transformer(), adapter, "organisation/bert");
  const auto layers = static_cast<std::size_t>(encoder.config().num_hidden_layers);
  CHECK(SafeTensors::open(adapter / "adapter_model.safetensors").names().size() == 4 * layers);
  CHECK(SafeTensors::open(adapter / "adapter_model.safetensors")
            .shape("base_model.model.encoder.layer.0.attention.self.query.lora_A.weight") ==
        Shape{4, encoder.config().hidden_size});
  const JsonNode config(adapter / "adapter_config.json");
  CHECK(config.at("peft_type").text() == "LORA");
  CHECK(config.at("base_model_name_or_path").text() == "organisation/bert");
  CHECK(config.at("r").integer() == 4);
  CHECK(config.at("lora_alpha").number() == 8);
  CHECK(config.at("target_modules").size() == 2 * layers);

  const SentenceEncoder again = load("bert");
  CHECK(nn::load_lora(*again.transformer(), adapter) == 2 * layers);
  CHECK(again.encode(oracle_sentences()).to_vector() ==
        encoder.encode(oracle_sentences()).to_vector());
  CHECK(nn::load_lora(*again.transformer(), adapter) == 2 * layers);  // into the same layers
}

TEST_CASE("an adapter that PEFT saved gives PEFT's embeddings, and is saved with its bytes") {
  const Oracle oracle("lora");
  for (const std::string name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const std::filesystem::path of_peft = oracle_folder() + "/lora/" + name;
    const SentenceEncoder encoder = load(name);
    nn::load_lora(*encoder.transformer(), of_peft);
    check_close(encoder.encode(oracle_sentences()).to(default_device()),
                oracle.tensor(name + "/embeddings"), 64 * kF32);

    const TemporaryFolder ours;
    nn::save_lora(*encoder.transformer(), ours.path(), name);
    const SafeTensors theirs = SafeTensors::open(of_peft / "adapter_model.safetensors");
    const SafeTensors saved = SafeTensors::open(ours / "adapter_model.safetensors");
    REQUIRE(std::set<std::string>(saved.names().begin(), saved.names().end()) ==
            std::set<std::string>(theirs.names().begin(), theirs.names().end()));
    for (const std::string& factor : theirs.names())
      CHECK(saved.load(factor).to_vector() == theirs.load(factor).to_vector());
  }
}

TEST_CASE("adapters that compute something else here are refused") {
  const Oracle oracle("lora");
  const TemporaryFolder folder;
  nn::save_lora(*adapted("bert", oracle).transformer(), folder.path());
  const std::filesystem::path file = folder / "adapter_config.json";
  const std::string good = read_file(file);
  const auto refused = [&](const std::string& from, const std::string& to, const char* message) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file(file, text);
    const SentenceEncoder encoder = load("bert");
    CHECK_THROWS_WITH_AS(nn::load_lora(*encoder.transformer(), folder.path()),
                         doctest::Contains(message), InputError);
    write_file(file, good);
  };
  refused("LORA", "IA3", "peft_type \"IA3\" is not supported; expected \"LORA\"");
  refused("\"r\"", "\"use_dora\": true, \"r\"", "use_dora true is not supported");
  refused("\"r\"", "\"alora_invocation_tokens\": [1], \"r\"",
          "alora_invocation_tokens [1] is not supported; expected null");
  refused("\"bias\": \"none\"", "\"bias\": \"all\"", "bias \"all\" is not supported");
  CHECK_THROWS_WITH_AS(nn::load_lora(*load("mpnet").transformer(), folder.path()),
                       doctest::Contains("no replaceable layer"), InputError);
  CHECK_THROWS_WITH_AS(nn::save_lora(*load("mpnet").transformer(), folder.path()),
                       "[save_lora] the module has no LoRA layers", Error);
}

TEST_CASE("a copy of an encoder has the layers that replaced its own") {
  const Oracle oracle("lora");
  const SentenceEncoder encoder = adapted("mpnet", oracle);
  const auto copy =
      std::dynamic_pointer_cast<SentenceModules>(nn::clone(*encoder.modules(), default_device()));
  REQUIRE(copy);
  CHECK(encoder.around(copy).encode(oracle_sentences()).to_vector() ==
        encoder.encode(oracle_sentences()).to_vector());
}

TEST_CASE("every part of a layer is replaceable; a Linear in its place gives the same numbers") {
  const SentenceEncoder encoder = load("mpnet");
  const Tensor before = encoder.encode(oracle_sentences());
  const auto again = [](const std::shared_ptr<nn::Linear>& old) {
    return std::make_shared<nn::Linear>(old->weight, old->bias);
  };
  // In a wrapper, so that no Linear or LayerNorm is fused with later ops.
  struct Wrapped final : nn::UnaryModule {
    explicit Wrapped(std::shared_ptr<nn::UnaryModule> inner)
        : inner(register_module("", std::move(inner))) {}
    Variable forward(const Variable& x) override { return (*inner)(x); }
    std::shared_ptr<nn::UnaryModule> inner;
  };
  const auto wrap = [](const std::shared_ptr<nn::UnaryModule>& old) {
    return std::make_shared<Wrapped>(old);
  };
  const auto names_of = [&] {
    std::vector<std::string> names;
    for (const auto& named : encoder.transformer()->named_parameters()) names.push_back(named.name);
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> names = names_of();
  nn::Module& model = *encoder.transformer();
  for (const char* part : {"q", "k", "v", "o"})
    CHECK(nn::replace<nn::Linear>(model, {str("encoder.layer.*.attention.attn.", part)}, again) ==
          3);
  check_close(encoder.encode(oracle_sentences()), before, 16 * kF32);
  for (const char* part :
       {"attention.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm", "attn.q"})
    CHECK(nn::replace<nn::UnaryModule>(model, {part}, wrap) == 3);
  check_close(encoder.encode(oracle_sentences()), before, 64 * kF32);
  CHECK(names_of() == names);
}

TEST_CASE("a whole layer is replaceable by a program's own") {
  struct Skip final : TransformerLayer {
    Variable forward(const Variable& hidden, const PackedBatch&, const Variable&) override {
      return hidden;
    }
  };
  const SentenceEncoder encoder = load("mpnet");
  const std::int64_t before = encoder.transformer()->num_parameters();
  CHECK(nn::replace(*encoder.transformer(), {"encoder.layer.1"},
                    [](const auto&) { return std::make_shared<Skip>(); }) == 1);
  CHECK(encoder.transformer()->num_parameters() < before);
  CHECK(encoder.encode("a dog runs").numel() == encoder.dimension());
  CHECK_THROWS_WITH_AS(nn::clone(*encoder.transformer(), {}),
                       "[module] a Module cannot be copied: it has no blank_copy", Error);
}
