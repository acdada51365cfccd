// Model folders that a test changes.
#pragma once

#include <functional>

#include "../files.h"
#include "oracle_batch.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"

namespace ringlet::models {

namespace fs = std::filesystem;

/// A copy of an oracle's folder for changes by a test.
struct ModelFolder : TemporaryFolder {
  explicit ModelFolder(const std::string& name) {
    fs::copy(ringlet::tests_file("oracles/" + name), path(), fs::copy_options::recursive);
  }

  /// Writes the weights again under the names of `rename`, plus `more`.
  void rewrite(const std::function<std::string(const std::string&)>& rename,
               const std::vector<std::string>& more = {}, DType dtype = DType::f32) const {
    const fs::path weights = path() / "model.safetensors";
    NamedTensors tensors;
    const SafeTensors file = SafeTensors::open(weights);
    for (const std::string& name : file.names())
      tensors.emplace_back(rename(name), file.load(name).clone().to(dtype));
    for (const std::string& name : more) tensors.emplace_back(name, ones({2}));
    save_safetensors(weights, tensors);
  }
  /// Makes it a checkpoint of transformers: without files of Sentence Transformers.
  void make_bare() const {
    for (const char* name : {"modules.json", "sentence_bert_config.json",
                             "config_sentence_transformers.json", "1_Pooling", "2_Normalize"})
      fs::remove_all(path() / name);
  }
  Json read(const std::string& name) const { return Json::parse(read_file(path() / name)); }
  void write(const std::string& name, const Json& json) const {
    write_file(path() / name, json.dump());
  }
  /// Sets keys of a file, of its second element if it is a list; makes it if it is not there.
  void set(const std::string& name, const Json& keys) const {
    Json json = fs::exists(path() / name) ? read(name) : Json::object();
    (json.is_array() ? json[1] : json).update(keys);
    write(name, json);
  }
  SentenceEncoder load() const { return SentenceEncoder::from_pretrained(path()); }
};

inline std::string same(const std::string& name) { return name; }

inline Json module(const std::string& type, const std::string& path) {
  return {
      {"idx", 0}, {"name", type}, {"path", path}, {"type", "sentence_transformers.models." + type}};
}

/// The embeddings have equal bits: the weights are equal, and so is the computation.
inline void check_same(const SentenceEncoder& actual, const SentenceEncoder& expected) {
  CHECK(actual.max_seq_length() == expected.max_seq_length());
  CHECK(actual.encode(oracle_sentences()).to_vector() ==
        expected.encode(oracle_sentences()).to_vector());
}

inline void check_refused(const ModelFolder& folder, const std::string& file,
                          const std::string& line) {
  CHECK_THROWS_WITH_AS(folder.load(), ((folder / file).string() + ": " + line).c_str(), InputError);
}

/// Keys without effect.
inline std::vector<std::string> keys(const SentenceEncoder& encoder) {
  const auto named = encoder.unused_keys();
  return std::vector<std::string>(named.begin(), named.end());
}

}  // namespace ringlet::models
