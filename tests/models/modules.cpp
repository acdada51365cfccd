// Modules after the pooling, compared with Sentence Transformers (scripts/oracles/modules.py).
#include <map>

#include "../device.h"
#include "model_folder.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/models/modules/after_pooling.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

/// Cases of the oracle, and the folders of their transformers.
const std::map<std::string, std::string> kCases{
    {"dense_tanh_normalize", "bert"}, {"projection", "mpnet"}, {"every", "mpnet"}};

/// A transformer's folder with the modules that Sentence Transformers 6 wrote.
struct ModulesFolder : ModelFolder {
  explicit ModulesFolder(const std::string& name) : ModelFolder(kCases.at(name)) {
    fs::remove_all(path() / "2_Normalize");
    fs::copy(oracle_folder() + "/modules/" + name, path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  /// The same in the layout of release 5: other packages, no names of inputs and outputs.
  void make_old() const {
    Json list = read("modules.json");
    for (Json& module : list) {
      const auto type = module["type"].get<std::string>();
      const std::string name = type.substr(type.rfind('.') + 1);
      module["type"] = "sentence_transformers.models." + name;
      const std::string config = module["path"].get<std::string>() + "/config.json";
      if (name == "Normalize") fs::remove(path() / config);
      if (name != "Dense") continue;
      Json keys = read(config);
      keys.erase("module_input_name");
      keys.erase("module_output_name");
      write(config, keys);
    }
    write("modules.json", list);
  }
};

/// An encoder with every module and dropout after its pooling.
SentenceEncoder with_every_module() {
  const SentenceEncoder plain = load("mpnet");
  return {
      std::make_shared<SentenceModules>(
          plain.transformer(), Pooling::mean,
          SentenceModules::After{
              std::make_shared<modules::Dense>(32, 12), std::make_shared<modules::LayerNorm>(12),
              std::make_shared<modules::Dropout>(0.5), std::make_shared<modules::Normalize>()}),
      plain.tokenizer()};
}

PackedBatch two_sentences(const SentenceEncoder& encoder, std::int64_t first_row, bool both) {
  const auto ids = encoder.tokenizer().encode_batch(oracle_sentences());
  BatchBuilder builder;
  for (std::int64_t s = both ? 0 : 1; s < 2; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::span<const std::int32_t> text(
        ids.ids.data() + ids.cu_seqlens[at],
        static_cast<std::size_t>(ids.cu_seqlens[at + 1] - ids.cu_seqlens[at]));
    builder.add_row({&text, 1}, first_row + s);
  }
  return builder.build().to(default_device());
}

}  // namespace

TEST_CASE("modules after the pooling: embeddings of Sentence Transformers, from both layouts") {
  const Oracle oracle("modules");
  for (const auto& each : kCases) {
    const std::string& name = each.first;
    CAPTURE(name);
    const ModulesFolder folder(name);
    const SentenceEncoder encoder = folder.load();
    CHECK(keys(encoder).empty());
    const Tensor expected = oracle.tensor(name + "/embeddings");
    CHECK(encoder.dimension() == expected.size(1));
    check_close(encoder.encode(oracle_sentences()).to(default_device()), expected, 2e-6, name);
    folder.make_old();
    check_same(folder.load(), encoder);

    const TemporaryFolder saved;
    encoder.save(saved / "model");
    check_same(SentenceEncoder::from_pretrained(saved / "model"), encoder);
    const auto dense = Json::parse(read_file(
        saved / "model" / (name == "projection" ? "3_Dense" : "2_Dense") / "config.json"));
    CHECK(dense["out_features"] == (name == "projection" ? 8 : name == "every" ? 40 : 20));
    CHECK(dense["bias"] == (name != "projection"));
    CHECK(dense["activation_function"] == (name == "projection" ? "torch.nn.modules.linear.Identity"
                                           : name == "every"    ? "torch.nn.modules.activation.ReLU"
                                                             : "torch.nn.modules.activation.Tanh"));
    CHECK(Json::parse(read_file(saved / "model/modules.json"))[2]["type"] ==
          (name == "projection" ? "sentence_transformers.models.Normalize"
                                : "sentence_transformers.models.Dense"));
  }
}

TEST_CASE("parameters of modules have their place in modules.json as a name, others keep theirs") {
  const SentenceEncoder encoder = with_every_module();
  CosineSimilarityLoss loss(encoder);
  std::vector<std::string> names;
  for (const auto& named : load("mpnet").transformer()->named_parameters())
    names.push_back(named.name);
  for (const char* own : {"modules.2.linear.weight", "modules.2.linear.bias",
                          "modules.3.norm.weight", "modules.3.norm.bias"})
    names.emplace_back(own);
  std::vector<std::string> found;
  for (const auto& named : loss.named_parameters()) found.push_back(named.name);
  CHECK(found == names);
}

TEST_CASE("a loss trains the modules after the pooling, and its copy gives the same gradients") {
  const GeneratorGuard random({.seed = 7, .step = 3});
  const Oracle oracle("mpnet");
  PackedBatch batch = pair_batch(oracle, 0);
  batch.labels = oracle.tensor("batch0/scores").to(DType::f32).to(default_device());
  CosineSimilarityLoss loss(with_every_module());
  const auto copy = std::dynamic_pointer_cast<Loss>(nn::clone(loss, default_device()));
  REQUIRE(copy);
  CHECK(bits_of(loss_and_gradients(loss, batch)) == bits_of(loss_and_gradients(*copy, batch)));
}

TEST_CASE("dropout after the pooling: a sentence's mask follows its row of the global batch") {
  const GeneratorGuard random({.seed = 7, .step = 3});
  const SentenceEncoder encoder = with_every_module();
  const auto row = [&](std::int64_t first_row, bool both) {
    return encoder(two_sentences(encoder, first_row, both)).tensor().to(Device{})[-1].to_vector();
  };
  const std::vector<float> beside = row(0, true), alone = row(0, false);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK((beside[i] == 0) == (alone[i] == 0));  // the mask
    if (has_shape_free_products) CHECK(beside[i] == alone[i]);
  }
  CHECK(row(0, true) != row(5, true));
  CHECK(encoder.encode(oracle_sentences()).to_vector() ==
        encoder.encode(oracle_sentences()).to_vector());
}

TEST_CASE("a rank without rows trains the modules after the pooling, too") {
  const SentenceEncoder encoder = with_every_module();
  const Variable none = encoder(BatchBuilder().build().to(default_device()));
  CHECK(none.shape() == Shape{0, 12});
  autograd::sum(none).backward();
  for (const auto& named : encoder.modules()->named_parameters())
    if (named.name.starts_with("modules.")) CHECK(named.parameter.grad().defined());
}

TEST_CASE("settings and weights of modules that are not supported are refused by name") {
  struct Refusal {
    const char *file, *key;
    Json value;
    std::string line;
  };
  for (const auto& [file, key, value, line] : {
           Refusal{"2_Dense/config.json", "activation_function", "torch.nn.modules.activation.SELU",
                   "activation_function 'torch.nn.modules.activation.SELU' is not supported; "
                   "expected GELU, Identity, ReLU, Sigmoid or Tanh of torch.nn"},
           Refusal{"2_Dense/config.json", "activation_function", "lab.Tanh",
                   "activation_function 'lab.Tanh' is not supported; expected GELU, Identity, "
                   "ReLU, Sigmoid or Tanh of torch.nn"},
           Refusal{"2_Dense/config.json", "in_features", 48,
                   "in_features: expected 32, the width of the module before, got 48"},
           Refusal{"2_Dense/config.json", "out_features", 0,
                   "out_features: expected 1 to 65536, got 0"},
           Refusal{"2_Dense/config.json", "module_input_name", "token_embeddings",
                   "module_input_name \"token_embeddings\" is not supported; expected "
                   "\"sentence_embedding\""},
           Refusal{"3_LayerNorm/config.json", "dimension", 32,
                   "dimension: expected 40, the width of the module before, got 32"},
           Refusal{"3_LayerNorm/config.json", "eps", 1, "'eps' is not a known key"},
           Refusal{"4_Dropout/config.json", "dropout", 1,
                   "dropout: expected 0 or more and less than 1, got 1"},
       }) {
    const ModulesFolder folder("every");
    folder.set(file, {{key, value}});
    check_refused(folder, file, line);
  }
  const ModulesFolder folder("every");
  folder.set("2_Dense/config.json", {{"new_key", 1}});
  CHECK(keys(folder.load()) ==
        std::vector<std::string>{(folder / "2_Dense/config.json").string() + ": 'new_key'"});
  folder.set("2_Dense/config.json", {{"bias", false}});
  check_refused(folder, "2_Dense/model.safetensors",
                "tensor 'linear.bias' is none of Dense with this config.json");
  folder.set("2_Dense/config.json", {{"bias", true}, {"out_features", 41}});
  check_refused(folder, "2_Dense/model.safetensors",
                "tensor 'linear.weight' has shape (40, 32), but config.json says (41, 32)");
  const std::string weights = (folder / "2_Dense/pytorch_model.bin").string();
  fs::rename(folder / "2_Dense/model.safetensors", weights);
  check_refused(folder, "2_Dense/pytorch_model.bin",
                "pickled weights are not read; convert them with python -c \"import torch, "
                "safetensors.torch as s; s.save_file(torch.load('" +
                    weights + "'), '" + (folder / "2_Dense/model.safetensors").string() + "')\"");
}
