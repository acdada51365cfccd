// Published folders in the common layouts: each gives the oracle's embeddings.
#include "ringlet/models/folder.h"
#include "ringlet/core/io/json.h"

#include <doctest/doctest.h>

#include "../comm/environment.h"
#include "model_folder.h"

using namespace ringlet;
using namespace ringlet::models;
namespace fs = std::filesystem;

namespace {

std::string with_old_layer_norm(std::string name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
  };
  replace("LayerNorm.weight", "LayerNorm.gamma");
  replace("LayerNorm.bias", "LayerNorm.beta");
  return name;
}

}  // namespace

TEST_CASE("a bare checkpoint with a language model's head: the mean of the tokens, heads named") {
  for (const std::string name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const ModelFolder folder(name);
    folder.make_bare();
    const std::string head = name == "bert" ? "cls.predictions.bias" : "lm_head.bias";
    folder.rewrite([&](const std::string& weight) { return name + "." + weight; },
                   {head, name + ".embeddings.position_ids"});
    const SentenceEncoder encoder = folder.load();
    CHECK(encoder.pooling() == Pooling::mean);
    CHECK_FALSE(encoder.normalize());
    check_same(encoder, load_unnormalized(name));
    std::vector<std::string> unused{head};
    if (name == "bert") unused = {head, "bert.pooler.dense.bias", "bert.pooler.dense.weight"};
    const auto named = encoder.unused_names();
    CHECK(std::vector<std::string>(named.begin(), named.end()) == unused);
  }
}

TEST_CASE("LayerNorm's gamma and beta are its weight and bias") {
  for (const char* name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const ModelFolder folder(name);
    folder.rewrite(with_old_layer_norm);
    check_same(folder.load(), load(name));
  }
  const ModelFolder both("mpnet");
  both.rewrite(same, {"mpnet.embeddings.LayerNorm.gamma"});
  check_refused(both, "model.safetensors",
                "tensors 'embeddings.LayerNorm.weight' and 'mpnet.embeddings.LayerNorm.gamma' are "
                "the same parameter");
}

TEST_CASE("the layout of version 2: 0_Transformer, a flag for each pooling mode") {
  for (const std::string name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const ModelFolder folder(name);
    fs::create_directory(folder / "0_Transformer");
    for (const char* file : {"config.json", "model.safetensors", "sentence_bert_config.json",
                             "tokenizer.json", "tokenizer_config.json", "vocab.txt"})
      fs::rename(folder / file, folder / "0_Transformer" / file);
    folder.write("0_Transformer/sentence_bert_config.json", {{"max_seq_length", 12}});
    folder.write("1_Pooling/config.json", {{"pooling_mode_mean_tokens", name == "mpnet"},
                                           {"pooling_mode_cls_token", name == "bert"},
                                           {"pooling_mode_max_tokens", false},
                                           {"pooling_mode_mean_sqrt_len_tokens", false}});
    Json modules{module("Transformer", "0_Transformer"), module("Pooling", "1_Pooling")};
    if (name == "mpnet") modules.push_back(module("Normalize", "2_Normalize"));
    folder.write("modules.json", modules);

    const SentenceEncoder plain = load(name);
    const SentenceEncoder expected(plain.transformer(), plain.tokenizer(),
                                   name == "bert" ? Pooling::cls : Pooling::mean, name == "mpnet");
    expected.set_max_seq_length(12);
    check_same(folder.load(), expected);
  }
}

TEST_CASE("bf16 weights are read as the f32 that they are, shards as one file") {
  const ModelFolder narrow("mpnet");
  narrow.rewrite(same, {}, DType::bf16);
  const auto expected = load("mpnet").transformer()->named_parameters();
  const auto transformer = narrow.load().transformer();
  for (const nn::NamedParameter& named : expected) {
    const Tensor read = transformer->parameter(named.name).tensor();
    CHECK(read.dtype() == DType::f32);
    CHECK(read.to_vector() == named.parameter.tensor().to(DType::bf16).to_vector());
  }

  const ModelFolder sharded("mpnet");
  NamedTensors shards[2];
  Json map;
  {
    const SafeTensors file = SafeTensors::open(sharded / "model.safetensors");
    for (const std::string& name : file.names()) {
      const std::size_t shard = map.size() % 2;
      shards[shard].emplace_back(name, file.load(name).clone());
      map[name] = str("model-", shard, ".safetensors");
    }
  }
  for (std::size_t i = 0; i < 2; ++i)
    save_safetensors(sharded / str("model-", i, ".safetensors"), shards[i]);
  sharded.write("model.safetensors.index.json", {{"weight_map", map}});
  fs::remove(sharded / "model.safetensors");
  check_same(sharded.load(), load("mpnet"));
}

TEST_CASE("pickled weights are refused with the line that converts them") {
  const ModelFolder folder("bert");
  fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin");
  const std::string path = folder.path().string();
  check_refused(folder, "pytorch_model.bin",
                "pickled weights are not read; convert them with python -c \"from transformers "
                "import AutoModel; AutoModel.from_pretrained('" +
                    path + "').save_pretrained('" + path + "')\"");
}

TEST_CASE("modules and pooling modes that are not known are refused by name") {
  const ModelFolder folder("bert");
  folder.write("1_Pooling/config.json", {{"pooling_mode_lasttoken", true}});
  check_refused(folder, "1_Pooling/config.json",
                "pooling mode 'lasttoken' is not supported; expected mean, cls or max");
  folder.write("1_Pooling/config.json",
               {{"pooling_mode_cls_token", true}, {"pooling_mode_max_tokens", true}});
  check_refused(folder, "1_Pooling/config.json", "expected exactly one pooling mode, found 2");
}

TEST_CASE("modules that are not supported are refused by position") {
  const Json transformer = module("Transformer", ""), pooling = module("Pooling", "1_Pooling"),
             normalize = module("Normalize", "2_Normalize");
  const ModelFolder folder("mpnet");
  const auto refused = [&](const Json& modules, const std::string& line) {
    folder.write("modules.json", modules);
    check_refused(folder, "modules.json", line);
  };
  const auto unsupported = [](const std::string& name, const std::string& expected) {
    return "'" + name + "' is not supported; expected " + expected + " of Sentence Transformers";
  };
  // In Python the first of these changes embeddings by 0.8 of the largest value; the second one
  // fails.
  refused({transformer, normalize, pooling}, "module 1: " + unsupported("Normalize", "Pooling"));
  refused(Json::array({transformer}), "expected Pooling as module 1, the list ends before it");
  refused({pooling, transformer}, "module 0: " + unsupported("Pooling", "Transformer"));
  refused({transformer, pooling, normalize, module("CNN", "3_CNN")},
          "module 3: " + unsupported("CNN", "Dense, Dropout, LayerNorm or Normalize"));
  Json custom = pooling;
  custom["type"] = "custom.Pooling";
  refused({transformer, custom}, "module 1: " + unsupported("custom.Pooling", "Pooling"));
  Json same_name = pooling;
  same_name["name"] = "Transformer";
  refused({transformer, same_name}, "module 1: a module before it has the name 'Transformer', too");
  for (const std::string path : {"/1_Pooling", "../1_Pooling"})
    refused({transformer, module("Pooling", path)},
            "module 1: path '" + path + "': expected a folder in this folder");
  folder.write("modules.json", {transformer, pooling, normalize});
  check_same(folder.load(), load("mpnet"));
}

TEST_CASE("keys of published folders are not named") {
  // Keys of bert-base-uncased, MiniLM, multilingual BERT, e5, bge, gte and transformers 5.23's
  // defaults.
  const Json published = Json::parse(R"({
    "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"],
    "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
    "model_type": "bert", "position_embedding_type": "absolute", "transformers_version": "4.8.2",
    "type_vocab_size": 2, "use_cache": true, "classifier_dropout": null, "torch_dtype": "float16",
    "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "directionality": "bidi",
    "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "output_past": true,
    "return_dict": true, "output_hidden_states": false, "output_attentions": false,
    "dtype": "float32", "chunk_size_feed_forward": 0, "is_encoder_decoder": false,
    "problem_type": null, "pruned_heads": {}, "is_decoder": false, "add_cross_attention": false,
    "bos_token_id": null, "eos_token_id": null, "tie_word_embeddings": true, "torchscript": false,
    "max_length": 20, "num_beams": 1, "temperature": 1.0, "finetuning_task": null})");
  const ModelFolder folder("bert");
  folder.set("config.json", published);
  folder.write("config_sentence_transformers.json",
               {{"__version__", {{"sentence_transformers", "2.0.0"}}}});
  folder.write("sentence_bert_config.json", {{"max_seq_length", 64}, {"do_lower_case", false}});
  Json pooling{{"word_embedding_dimension", 384}, {"include_prompt", true}};
  for (const char* mode : {"cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens",
                           "lasttoken", "mean_tokens"})
    pooling[str("pooling_mode_", mode)] = mode == std::string("mean_tokens");
  folder.write("1_Pooling/config.json", pooling);
  CHECK(folder.load().unused_keys().empty());
}

TEST_CASE("files beside the usual ones that Python follows are followed or refused") {
  const ModelFolder folder("mpnet");
  folder.write("sentence_roberta_config.json", {{"max_seq_length", 12}});
  check_same(folder.load(), load("mpnet"));  // after sentence_bert_config.json
  folder.write("sentence_bert_config.json", Json::object());
  CHECK(folder.load().max_seq_length() == 12);
  folder.write("adapter_config.json", {{"peft_type", "LORA"}});
  check_refused(folder, "adapter_config.json",
                "adapters are not supported; merge them into the weights");
}

TEST_CASE("sentence_bert_config.json: arguments of the tokenizer and its calls, as in Python") {
  const std::string path = ringlet::tests_file("oracles/tokenizer/sentence_settings.json");
  const auto oracle = Json::parse(read_file(path));
  const auto texts = oracle.at("texts").get<std::vector<std::string>>();
  for (const Json& entry : oracle.at("cases")) {
    INFO(entry.at("change").dump());
    const ModelFolder folder("bert");
    folder.set("sentence_bert_config.json", entry.at("change"));
    const Tensor embeddings = folder.load().encode(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto row = embeddings[static_cast<std::int64_t>(i)].to_vector();
      for (std::size_t k = 0; k < 8; ++k)
        CHECK(row[k] ==
              doctest::Approx(entry.at("embeddings").at(i).at(k).get<double>()).epsilon(1e-4));
    }
  }
}

TEST_CASE("every key of a folder is followed, harmless, refused or named once") {
  for (const char* name : kFamilies) CHECK(keys(load(name)).empty());

  const ModelFolder folder("mpnet");
  folder.write("2_Normalize/config.json", {{"module_input_name", "sentence_embedding"}});
  std::vector<std::string> expected;
  for (const std::string file : {"config_sentence_transformers.json", "modules.json", "config.json",
                                 "2_Normalize/config.json"}) {
    folder.set(file, {{"new_key", 1}, {"unset_key", nullptr}});
    const std::string place = file == "modules.json" ? ": module 1" : "";
    expected.push_back((folder / file).string() + place + ": 'new_key'");
  }
  folder.set("tokenizer.json", {{"new_key", 1}});
  folder.set("tokenizer_config.json", {{"new_key", 1}, {"added_tokens_decoder", nullptr}});
  folder.write("special_tokens_map.json", {{"new_key", 1}, {"pad_token", "<pad>"}});
  folder.write("added_tokens.json", {{"<mask>", 30}});  // each key is a token
  for (const std::string file :
       {"tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"})
    expected.push_back((folder / file).string() + ": 'new_key'");
  CHECK(keys(folder.load()) == expected);
  const ModelFolder sharded("bert");
  sharded.write("model.safetensors.index.json",
                {{"weight_map", {}}, {"metadata", {{"total_size", 1}}}, {"new_key", 1}});
  CHECK(keys(sharded.load()) ==
        std::vector<std::string>{(sharded / "model.safetensors.index.json").string() +
                                 ": 'new_key'"});
  // Python's classes reject unknown keys of these files.
  for (const std::string file : {"1_Pooling/config.json", "sentence_bert_config.json"}) {
    const ModelFolder other("mpnet");
    other.set(file, {{"new_key", 1}});
    check_refused(other, file, "'new_key' is not a known key");
  }

  struct Refusal {
    const char *file, *key;
    Json value;
    const char* expected;
  };
  const Json some{{"0", Json::array({1})}};
  for (const auto& [file, key, value, supported] : {
           // In Python a decoder is causal: changes embeddings by 0.29 of the largest value.
           Refusal{"config.json", "is_decoder", true, "false"},
           Refusal{"config.json", "add_cross_attention", true, "false"},
           Refusal{"config.json", "is_encoder_decoder", true, "false"},
           Refusal{"config.json", "hidden_act", "gelu_new", "\"gelu\""},
           Refusal{"config.json", "position_embedding_type", "relative_key", "\"absolute\""},
           Refusal{"config.json", "pruned_heads", some, "{}"},
           Refusal{"config.json", "per_layer_config", some, "{}"},
           Refusal{"config_sentence_transformers.json", "model_type", "SparseEncoder",
                   "\"SentenceTransformer\""},
           Refusal{"sentence_bert_config.json", "query_length", 8, "null"},
           Refusal{"sentence_bert_config.json", "tokenizer_name_or_path", "x", "null"},
           Refusal{"sentence_bert_config.json", "transformer_task", "fill-mask",
                   "\"feature-extraction\""},
           Refusal{"sentence_bert_config.json", "module_output_name", "sentence_embedding",
                   "\"token_embeddings\""},
       }) {
    const ModelFolder other("bert");
    other.set(file, {{key, value}});
    check_refused(other, file,
                  str(key, " ", value.dump(), " is not supported; expected ", supported));
    // The default, or no value, requests the existing behaviour.
    other.set(file, {{key, Json::parse(supported)}});
    check_same(other.load(), load("bert"));
    other.set(file, {{key, nullptr}});
    CHECK(keys(other.load()).empty());
  }
}

TEST_CASE("unknown keys of an added token or of one with a role are named") {
  const ModelFolder folder("bert");
  const std::string file = (folder / "tokenizer_config.json").string();
  const Json token{{"content", "[MASK]"}, {"__type", "AddedToken"}, {"new_key", 1}};
  folder.set("tokenizer_config.json", {{"mask_token", token},
                                       {"extra_special_tokens", Json::array({token})},
                                       {"added_tokens_decoder", {{"4", token}}}});
  const std::vector<std::string> expected{file + ": mask_token: 'new_key'",
                                          file + ": added_tokens_decoder.4: 'new_key'",
                                          file + ": extra_special_tokens[0]: 'new_key'"};
  CHECK(keys(folder.load()) == expected);
  std::vector<std::string> of_tokenizer;
  Tokenizer::from_pretrained(folder.path(), &of_tokenizer);
  CHECK(of_tokenizer == expected);
}

TEST_CASE("a dtype other than f32, in which Python computes, is named; as an argument refused") {
  const ModelFolder folder("bert");
  const auto check_named = [&](const Json& dtype, const Json& torch_dtype,
                               const std::string& expected) {
    CAPTURE(dtype.dump());
    CAPTURE(torch_dtype.dump());
    folder.set("config.json", {{"dtype", dtype}, {"torch_dtype", torch_dtype}});
    std::vector<std::string> names;
    if (!expected.empty()) names = {folder.path().string() + "/" + expected};
    CHECK(keys(folder.load()) == names);
  };
  check_named("float32", "float16", "");  // the newer key counts
  check_named(nullptr, "float32", "");
  check_named(nullptr, nullptr, "");
  check_named("bfloat16", "float32", "config.json: 'dtype'");
  check_named(nullptr, "float16", "config.json: 'torch_dtype'");
  folder.rewrite(same, {}, DType::bf16);
  check_named(nullptr, nullptr, "model.safetensors: 'dtype'");
  check_named("float32", nullptr, "");

  for (const std::string arguments : {"model_kwargs", "model_args", "config_kwargs"}) {
    for (const std::string key : {"dtype", "torch_dtype"}) {
      folder.write("sentence_bert_config.json", {{arguments, {{key, "bfloat16"}}}});
      check_refused(
          folder, "sentence_bert_config.json",
          arguments + ": " + key + " \"bfloat16\" is not supported; expected \"float32\"");
      for (const char* same_value : {"float32", "auto"}) {
        folder.write("sentence_bert_config.json", {{arguments, {{key, same_value}}}});
        CHECK(keys(folder.load()).empty());
      }
    }
  }
}

TEST_CASE("without modules.json a chat template or a causal architecture is refused") {
  // In Python they change the tokens (0.5 of the largest value) and the pooling (0.47).
  const ModelFolder folder("bert");
  write_file(folder / "chat_template.jinja", "x");
  folder.set("tokenizer_config.json", {{"chat_template", "x"}});
  folder.set("config.json", {{"architectures", {"BertForCausalLM"}}});
  check_same(folder.load(), load("bert"));  // no effect beside modules.json
  folder.make_bare();
  check_refused(folder, "chat_template.jinja",
                "chat templates are not supported without modules.json");
  fs::remove(folder / "chat_template.jinja");
  for (const std::string file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    folder.set(file, {{"chat_template", "x"}});
    check_refused(folder, file, "chat_template \"x\" is not supported; expected null");
    folder.set(file, {{"chat_template", nullptr}});
  }
  check_refused(folder, "config.json",
                "architectures: 'BertForCausalLM' is not supported without modules.json: Python "
                "pools its last token");
  folder.set("config.json", {{"is_causal", false}});
  check_same(folder.load(), load_unnormalized("bert"));
  folder.set("config.json", {{"architectures", {"BertLMHeadModel"}}, {"is_causal", nullptr}});
  check_same(folder.load(), load_unnormalized("bert"));
  fs::create_directory(folder / "additional_chat_templates");
  check_refused(folder, "additional_chat_templates",
                "chat templates are not supported without modules.json");
}

TEST_CASE("MPNet's positions do not follow pad_token_id, as in transformers") {
  const Oracle oracle("folders");
  for (const int id : {0, 5}) {
    CAPTURE(id);
    const ModelFolder folder("mpnet");
    folder.set("config.json", {{"pad_token_id", id}});
    const SentenceEncoder encoder = folder.load();
    CHECK(encoder.config().max_tokens() == 132);  // of 134 positions
    check_close(encoder.encode(oracle_sentences()),
                oracle.tensor(str("pad_token_id/", id, "/embeddings")), 1e-5);
  }
}

TEST_CASE("truncate_dim cuts embeddings after normalisation, and survives saving") {
  const Oracle oracle("folders");
  for (const int columns : {5, 1000}) {
    CAPTURE(columns);
    const ModelFolder folder("mpnet");
    folder.write("config_sentence_transformers.json", {{"truncate_dim", columns}});
    const SentenceEncoder encoder = folder.load();
    const Tensor expected = oracle.tensor(str("truncate_dim/", columns, "/embeddings"));
    CHECK(encoder.encoded_dimension() == expected.size(1));
    check_close(encoder.encode(oracle_sentences()), expected, 1e-5);
    const TemporaryFolder saved;
    encoder.save(saved / "model");
    CHECK(Json::parse(read_file(
              saved / "model/config_sentence_transformers.json"))["truncate_dim"] == columns);
  }
  const ModelFolder folder("mpnet");
  folder.write("config_sentence_transformers.json", {{"truncate_dim", 0}});
  check_refused(folder, "config_sentence_transformers.json",
                "truncate_dim: expected 1 or more, got 0");
}

TEST_CASE("the default prompt goes before every text that is embedded, and survives saving") {
  const ModelFolder folder("mpnet");
  const Json prompts{{"query", "a question: "}, {"passage", ""}};
  const auto set = [&](const Json& name) {
    folder.write(
        "config_sentence_transformers.json",
        {{"prompts", prompts}, {"default_prompt_name", name}, {"similarity_fn_name", "dot"}});
  };
  const SentenceEncoder plain = load("mpnet");
  for (const char* without : {"", "passage"}) {
    set(*without ? Json(without) : Json());
    check_same(folder.load(), plain);
  }
  set("query");
  std::vector<std::string> questions;
  for (const std::string& text : oracle_sentences()) questions.push_back("a question: " + text);
  const std::vector<float> expected = plain.encode(questions).to_vector();
  const SentenceEncoder encoder = folder.load();
  CHECK(encoder.encode(oracle_sentences()).to_vector() == expected);

  const TemporaryFolder saved;
  encoder.save(saved / "model");
  CHECK(SentenceEncoder::from_pretrained(saved / "model").encode(oracle_sentences()).to_vector() ==
        expected);
  const auto config = Json::parse(read_file(saved / "model/config_sentence_transformers.json"));
  CHECK(config["prompts"] == prompts);
  CHECK(config["default_prompt_name"] == "query");
  CHECK(config["similarity_fn_name"] == "dot");

  folder.write("config_sentence_transformers.json", {{"similarity_fn_name", "maxsim"}});
  check_refused(folder, "config_sentence_transformers.json",
                "similarity_fn_name 'maxsim' is not supported; expected cosine, dot, euclidean or "
                "manhattan");
  set("title");
  check_refused(folder, "config_sentence_transformers.json",
                "'default_prompt_name': no prompt is named 'title'");
  set("query");
  folder.write("1_Pooling/config.json", {{"pooling_mode", "mean"}, {"include_prompt", false}});
  check_refused(folder, "1_Pooling/config.json",
                "include_prompt: false is not supported with a default prompt ('query')");
  set("passage");  // nothing to exclude
  folder.load().save(saved / "model");
  CHECK(Json::parse(read_file(saved / "model/1_Pooling/config.json"))["include_prompt"] == false);
}

TEST_CASE("lower-casing that the tokenizer does not do is refused") {
  const ModelFolder folder("bert");
  folder.write("sentence_bert_config.json", {{"do_lower_case", true}});
  check_same(folder.load(), load("bert"));  // its tokenizer does
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    Json json = folder.read(file);
    (json.contains("normalizer") ? json["normalizer"]["lowercase"] : json["do_lower_case"]) = false;
    folder.write(file, json);
  }
  check_refused(folder, "sentence_bert_config.json",
                "do_lower_case: true is not supported with a tokenizer that keeps case; lower-case "
                "in its normalizer");
}

TEST_CASE("the folder written is what Sentence Transformers reads, word for word") {
  const std::map<Pooling, std::string> modes{{Pooling::mean, "pooling_mode_mean_tokens"},
                                             {Pooling::cls, "pooling_mode_cls_token"},
                                             {Pooling::max, "pooling_mode_max_tokens"}};
  const SentenceEncoder whole = load("mpnet");
  for (const auto& mode : modes) {
    const Pooling pooling = mode.first;
    const std::string& flag = mode.second;
    for (const bool normalize : {false, true}) {
      CAPTURE(flag);
      CAPTURE(normalize);
      const SentenceEncoder encoder(whole.transformer(), whole.tokenizer(), pooling, normalize);
      encoder.set_max_seq_length(100);
      const TemporaryFolder folder;
      const fs::path path = folder / "model";
      encoder.save(path);
      const auto read = [&](const char* file) { return Json::parse(read_file(path / file)); };

      const std::string types = "sentence_transformers.models.";
      Json modules{{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", types + "Transformer"}},
                   {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", types + "Pooling"}}};
      if (normalize)
        modules.push_back(
            {{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", types + "Normalize"}});
      CHECK(read("modules.json") == modules);
      CHECK(fs::is_directory(path / "2_Normalize") == normalize);

      Json pooled{{"word_embedding_dimension", 32},
                  {"pooling_mode_cls_token", false},
                  {"pooling_mode_mean_tokens", false},
                  {"pooling_mode_max_tokens", false},
                  {"pooling_mode_mean_sqrt_len_tokens", false},
                  {"pooling_mode_weightedmean_tokens", false},
                  {"pooling_mode_lasttoken", false},
                  {"include_prompt", true}};
      pooled[flag] = true;
      CHECK(read("1_Pooling/config.json") == pooled);
      CHECK(read("sentence_bert_config.json") ==
            Json{{"max_seq_length", 100}, {"do_lower_case", false}});
      const auto config = read("config_sentence_transformers.json");
      CHECK(config["default_prompt_name"].is_null());
      CHECK(config["similarity_fn_name"] == "cosine");
      CHECK(read("config.json")["model_type"] == "mpnet");
      CHECK(read("config.json")["architectures"] == Json{"MPNetModel"});
      for (const char* file : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                               "vocab.txt", "model.safetensors"})
        CHECK(fs::is_regular_file(path / file));

      const SentenceEncoder again = SentenceEncoder::from_pretrained(path);
      CHECK(again.pooling() == pooling);
      CHECK(again.normalize() == normalize);
      check_same(again, encoder);
    }
  }
}

TEST_CASE("a config.json that lies is refused with the key and what it may be") {
  const auto refused = [](const std::string& name, const char* key, const Json& value,
                          const std::string& line) {
    const ModelFolder folder(name);
    folder.set("config.json", {{key, value}});
    check_refused(folder, "config.json", line);
  };
  for (const auto& [value, text] : {std::pair(-5, "-5"), std::pair(325, "325")})
    refused("mpnet", "pad_token_id", value,
            std::string("pad_token_id: expected an integer from 0 to 324, got ") + text);
  for (const auto& [value, text] : {std::pair(-1.0, "-1"), std::pair(0.0, "0")})
    refused("bert", "layer_norm_eps", value,
            std::string("layer_norm_eps must be finite and above 0, not ") + text);
  refused("xlmr", "pad_token_id", 0, "pad_token_id must be 1, not 0");
  refused("distilbert", "sinusoidal_pos_embds", true,
          "sinusoidal_pos_embds true is not supported; expected false");
  refused("distilbert", "activation", "relu",
          "activation \"relu\" is not supported; expected \"gelu\"");
  refused("bert", "model_type", "albert",
          "model_type 'albert' is not supported; expected bert, mpnet, roberta, xlm-roberta or "
          "distilbert");
  refused("bert", "num_hidden_layers", 16'000'000,
          "num_hidden_layers: expected an integer from 1 to 1024, got 16000000");
  refused("bert", "type_vocab_size", -2,
          "type_vocab_size: expected an integer from 0 to 16777216, got -2");
  refused("bert", "initializer_range", -0.5,
          "initializer_range must be finite and 0 or more, not -0.5");
}

TEST_CASE("lengths without room for the special tokens are refused with the file's name") {
  const ModelFolder folder("bert");
  folder.write("sentence_bert_config.json", {{"max_seq_length", 1}});
  check_refused(folder, "sentence_bert_config.json",
                "max_seq_length: expected room for the 2 special tokens of a text, got 1");
  folder.write("sentence_bert_config.json", {{"max_seq_length", -3}});
  check_refused(folder, "sentence_bert_config.json", "max_seq_length: expected 1 or more, got -3");
  folder.write("sentence_bert_config.json", {{"max_seq_length", 2}});
  CHECK(folder.load().max_seq_length() == 2);

  folder.set("config.json", {{"max_position_embeddings", 1}});
  check_refused(folder, "config.json",
                "tokens that max_position_embeddings allow: expected room for the 2 special tokens "
                "of a text, got 1");
}

TEST_CASE("a model in Hugging Face's cache is found by its name, and a folder comes first") {
  const ModelFolder model("mpnet");
  const TemporaryFolder cache;
  const fs::path repository = cache.path() / "models--lab--small";
  for (const char* part : {"refs", "snapshots"}) fs::create_directories(repository / part);
  write_file(repository / "refs/main", "0a1b\n");
  fs::copy(model.path(), repository / "snapshots/0a1b", fs::copy_options::recursive);
  with_environment({{"HF_HUB_CACHE", cache.path()}}, [&] {
    CHECK(names_folder("lab/small"));
    check_same(SentenceEncoder::from_pretrained("lab/small"), model.load());
    CHECK(cached_folder(model.path()) == model.path());
    CHECK(cached_folder("lab/large") == "lab/large");
    CHECK(cached_folder("small") == "small");
    fs::rename(repository, cache / "models--sentence-transformers--small");
    check_same(SentenceEncoder::from_pretrained("small"), model.load());
    CHECK_THROWS_WITH_AS(check_model_name("lab/large"),
                         doctest::Contains("where `hf download lab/large` puts it"), InputError);
  });
}

TEST_CASE("the cache of Sentence Transformers comes before that of Hugging Face") {
  const TemporaryFolder home, hub;
  for (const auto& [cache, name] : {std::pair(&home, "a"), std::pair(&hub, "b")}) {
    fs::create_directories(*cache / "models--bert-small/refs");
    write_file(*cache / "models--bert-small/refs/main", name);
  }
  fs::create_directories(hub / "models--lab--small/refs");
  write_file(hub / "models--lab--small/refs/main", "c");
  with_environment({{"SENTENCE_TRANSFORMERS_HOME", home.path()}, {"HF_HUB_CACHE", hub.path()}},
                   [&] {
                     CHECK(cached_folder("bert-small") == home / "models--bert-small/snapshots/a");
                     CHECK(cached_folder("lab/small") == hub / "models--lab--small/snapshots/c");
                   });
}

TEST_CASE("names of tensors with a wrapper's prefix are named, gelu_python is gelu") {
  for (const char* prefix : {"module.", "_orig_mod.", "0.auto_model."}) {
    const ModelFolder folder("bert");
    folder.rewrite([&](const std::string& name) { return prefix + name; });
    check_refused(folder, "model.safetensors",
                  str("tensor 'embeddings.word_embeddings.weight' is missing, '", prefix,
                      "embeddings.word_embeddings.weight' is there: save the model without the "
                      "wrapper that adds the prefix"));
  }
  const ModelFolder folder("bert");
  folder.set("config.json", {{"hidden_act", "gelu_python"}});
  check_same(folder.load(), ModelFolder("bert").load());
}

TEST_CASE("git-lfs pointers in place of a folder's files are named") {
  for (const char* file : {"config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json",
                           "tokenizer_config.json", "sentence_bert_config.json",
                           "config_sentence_transformers.json", "model.safetensors"}) {
    const ModelFolder folder("bert");
    write_file(folder / file, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n");
    check_refused(folder, file,
                  "a git-lfs pointer, not the file itself; `git lfs pull` fetches that");
  }
}

TEST_CASE("RobertaTokenizer from vocab.json and merges.txt alone") {
  const ModelFolder folder("roberta");
  const Json words = folder.read("tokenizer.json").at("model");
  folder.write("vocab.json", words.at("vocab"));
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : words.at("merges"))
    merges +=
        (merge.is_string() ? merge.get<std::string>()
                           : merge[0].get<std::string>() + ' ' + merge[1].get<std::string>()) +
        '\n';
  write_file(folder / "merges.txt", merges);
  const SentenceEncoder whole = folder.load();
  fs::remove(folder / "tokenizer.json");
  check_same(folder.load(), whole);
  write_file(folder / "tokenizer_config.json", "{}");  // config.json names the class
  for (const char* text : {"a dog runs", " <s> two<mask> cats", "na\u00EFve"})
    CHECK(folder.load().tokenizer().encode(text).ids == whole.tokenizer().encode(text).ids);
  write_file(folder / "merges.txt", merges + "# b c\n");  // only #version is no merge
  CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains(": expected two pieces, found '# b c'"),
                       InputError);
}

TEST_CASE("names of published sizes name the published model, and tiny has none") {
  CHECK_EQ(EncoderConfig::published("mpnet-base"), "microsoft/mpnet-base");
  CHECK_EQ(EncoderConfig::published("bert-base"), "google-bert/bert-base-uncased");
  CHECK_EQ(EncoderConfig::published("minilm-l6"), "nreimers/MiniLM-L6-H384-uncased");
  CHECK_EQ(EncoderConfig::published("tiny"), "");
}

TEST_CASE("paths that cannot be looked at are InputError that names them") {
  const TemporaryFolder folder;
  const std::string name = (folder / std::string(300, 'x')).string();  // no file system allows it
  const std::string line = name + ": cannot look at it: File name too long";
  CHECK_THROWS_WITH_AS(SentenceEncoder::from_pretrained(name), line.c_str(), InputError);
  CHECK_THROWS_WITH_AS(SafeTensors::open(name), line.c_str(), InputError);

  // A cycle of links in place of a file.
  for (const char* file : {"tokenizer.json", "special_tokens_map.json"}) {
    CAPTURE(file);
    const ModelFolder model("bert");
    fs::remove(model / file);
    fs::create_symlink(file, model / file);
    check_refused(model, file, "cannot look at it: Too many levels of symbolic links");
  }
}
