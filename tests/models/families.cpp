// Encoders by the differences from BERT's: names of keys and tensors, sizes, dropout.
#include <doctest/doctest.h>

#include "../device.h"
#include "../files.h"
#include "oracle_batch.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/models/encoder_layer.h"

using namespace ringlet;
using namespace ringlet::models;

TEST_CASE("every family is saved as it was loaded") {
  for (const std::string name : kFamilies) {
    CAPTURE(name);
    const SentenceEncoder encoder = load(name);
    const TemporaryFolder folder;
    encoder.save(folder.path());
    const auto read = [](const std::filesystem::path& path) {
      return Json::parse(read_file(path));
    };
    const auto original = read(std::filesystem::path(oracle_folder()) / name / "config.json");
    const auto saved = read(folder / "config.json");
    for (const auto& member : saved.items()) {
      const std::string& key = member.first;
      CAPTURE(key);
      if (key != "torch_dtype" && key != "bos_token_id" && key != "eos_token_id")
        CHECK(member.second == original.at(key));
    }
    const SentenceEncoder again = SentenceEncoder::from_pretrained(folder.path());
    CHECK(again.max_seq_length() == encoder.max_seq_length());
    CHECK(again.encode(oracle_sentences()).to_vector() ==
          encoder.encode(oracle_sentences()).to_vector());
    const auto tokenizer = read(folder / "tokenizer_config.json");
    const bool types = name == "bert" || name == "distilbert";  // distilbert's class is BERT's
    CHECK(tokenizer.contains("model_input_names") == !types);
  }
}

TEST_CASE("the published sizes of each family") {
  struct Size {
    const char* config;
    std::int64_t parameters;
  };
  for (const Size& size :
       {Size{R"({"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1,
                 "layer_norm_eps": 1e-5})",
             124'055'040},
        Size{R"({"model_type": "xlm-roberta", "vocab_size": 250002, "type_vocab_size": 1,
                 "max_position_embeddings": 514, "layer_norm_eps": 1e-5})",
             277'453'056},
        Size{R"({"model_type": "distilbert"})", 66'362'880}}) {
    const TemporaryFolder folder;
    write_file(folder / "config.json", size.config);
    const BlankWeights without_memory;
    const auto model = Transformer::create(EncoderConfig::from_file(folder / "config.json"));
    std::int64_t total = 0;
    for (const nn::NamedParameter& named : model->named_parameters())
      total += named.parameter.shape().numel();
    CHECK(total == size.parameters);
  }
}

TEST_CASE("DistilBERT has no dropout behind attention, BERT has") {
  const auto differs = [](const std::string& name, const std::string& last) {
    EncoderConfig config = load(name).config();
    config.hidden_dropout_prob = 0.5;
    const auto model = Transformer::create(config);
    // Without the second sum's term, the first sum's dropout is the only one of the layer.
    model->parameter(last + ".weight").mutable_tensor().zero_();
    model->to(default_device());
    TransformerLayer* layer = nullptr;
    model->visit([&](const std::string& path, nn::Module& module) {
      auto* const found = dynamic_cast<TransformerLayer*>(&module);
      if (found && path.ends_with("layer.0")) layer = found;
    });
    REQUIRE(layer);
    const PackedBatch batch = make_batch(Oracle(name), {"forward/"});
    const Variable hidden(normal({batch.tokens(), config.hidden_size}, 0, 1).to(default_device()));
    const auto run = [&](bool training) {
      training ? model->train() : model->eval();
      return (*layer)(hidden, batch, {}).tensor().to_vector();
    };
    return run(true) != run(false);
  };
  CHECK_FALSE(differs("distilbert", "transformer.layer.0.ffn.lin2"));
  CHECK(differs("bert", "encoder.layer.0.output.dense"));
}
