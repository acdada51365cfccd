#include "ringlet/train/evaluators/encode_together.h"

#include <doctest/doctest.h>

#include <limits>
#include <mutex>

#include "../../../files.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const std::filesystem::path kModel = tests_file("oracles/mpnet");

/// More than a block.
std::vector<std::string> many_texts() {
  std::vector<std::string> texts;
  for (int i = 0; i < 8200; ++i) texts.push_back(str("dog ", i));
  return texts;
}

}  // namespace

TEST_CASE("kept blocks are read again, others are computed") {
  const TemporaryFolder folder;
  const auto model = models::SentenceEncoder::from_pretrained(kModel);
  const std::vector<std::string> texts = many_texts();
  const auto embed = [&](const EmbeddingCache& cache, const std::string& prompt = "") {
    std::vector<float> all;
    std::vector<std::int64_t> rows;
    for_each_block(model, texts, {.prompt = prompt}, cache, {}, [&](const Tensor& block) {
      const auto values = block.to_vector();
      all.insert(all.end(), values.begin(), values.end());
      rows.push_back(block.size(0));
    });
    CHECK(rows == std::vector<std::int64_t>{8192, 8});
    return all;
  };
  const auto files = [&] { return list_folder(folder / "kept"); };
  const EmbeddingCache cache(folder / "kept", 1);
  const std::vector<float> plain = embed({});
  CHECK(embed(cache) == plain);
  REQUIRE_EQ(files().size(), 2);
  CHECK(embed(cache) == plain);
  CHECK_EQ(files().size(), 2);
  // As after a stop: one block is missing, the other is not computed again.
  const auto kept = files();
  std::filesystem::remove(kept[0]);
  const auto written = std::filesystem::last_write_time(kept[1]);
  CHECK(embed(cache) == plain);
  CHECK(files() == kept);
  CHECK(std::filesystem::last_write_time(kept[1]) == written);
  // Another prompt and another model have their own.
  CHECK(embed(cache, "a ") != plain);
  CHECK_EQ(files().size(), 4);
  CHECK(embed({folder / "kept", 2}) == plain);
  CHECK_EQ(files().size(), 6);
}

TEST_CASE("kept numbers are what comes out, on each of several ranks") {
  const TemporaryFolder folder;
  const auto model = models::SentenceEncoder::from_pretrained(kModel);
  const std::vector<std::string> texts{"a dog", "a cat", "a dog"};
  const auto embed = [&](const comm::Group& group) {
    return embed_blocks(model, texts, {}, group, {folder / "kept", 1}).to_vector();
  };
  const std::vector<float> computed = embed({});
  const auto files = list_folder(folder / "kept");
  REQUIRE_EQ(files.size(), 1);
  std::vector<float> changed = computed;
  changed[5] = 7;
  save_safetensors(files[0], {{"embeddings", tensor(changed, {3, 32})}});
  CHECK(embed({}) == changed);
  std::mutex mutex;
  const auto on_ranks = [&](const std::vector<float>& expected) {
    comm::launch(
        [&](const comm::Group& group) {
          const std::vector<float> found = embed(group);
          const std::lock_guard lock(mutex);
          CHECK(found == expected);
        },
        3);
  };
  on_ranks(changed);
  std::filesystem::remove(files[0]);
  on_ranks(computed);
  CHECK_EQ(list_folder(folder / "kept").size(), 1);
  write_file(files[0], "damaged");
  CHECK_THROWS_AS(embed({}), InputError);
  CHECK_THROWS_AS(on_ranks(computed), std::exception);
}

TEST_CASE("an embedding that is not finite is refused, with its text") {
  const auto model = models::SentenceEncoder::from_pretrained(kModel);
  for (const nn::Parameter& parameter : model.modules()->parameters()) {
    Tensor weights = parameter.tensor();
    weights.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const std::vector<std::string> texts{"a dog"};
  const char* const line = "the embedding of 'a dog' is not finite";
  CHECK_THROWS_WITH_AS(embed_blocks(model, texts, {}, {}), line, InputError);
  comm::launch(
      [&](const comm::Group& group) {
        CHECK_THROWS_WITH_AS(encode_together(model, texts, {}, group), line, InputError);
      },
      2);
}

TEST_CASE("the hash of a model's folder sees names, contents and subfolders, but no README") {
  const TemporaryFolder folder;
  const auto hash = [&] { return hash_folder(folder.path()); };
  make_folders(folder / "1_Pooling");
  write_file(folder / "1_Pooling/config.json", "{}");
  const auto before = hash();
  write_file(folder / "README.md", "# a model");
  write_file(folder / ".gitattributes", "*.safetensors filter=lfs");
  CHECK_EQ(hash(), before);
  write_file(folder / "1_Pooling/config.json", "{ }");
  const auto changed = hash();
  CHECK_NE(changed, before);
  std::filesystem::rename(folder / "1_Pooling", folder / "2_Pooling");
  const auto renamed = hash();
  CHECK_NE(renamed, changed);
  // A linked folder counts as its files.
  const TemporaryFolder elsewhere;
  std::filesystem::rename(folder / "2_Pooling", elsewhere / "pooling");
  std::filesystem::create_directory_symlink(elsewhere / "pooling", folder / "2_Pooling");
  CHECK_EQ(hash(), renamed);
  write_file(elsewhere / "pooling/config.json", "[]");
  CHECK_NE(hash(), renamed);
  CHECK_THROWS_AS(hash_folder(folder / "none"), InputError);
}
