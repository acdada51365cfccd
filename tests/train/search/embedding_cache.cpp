#include "ringlet/train/search/embedding_cache.h"

#include <doctest/doctest.h>

#include "../../files.h"
#include "ringlet/core/io/file.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const std::filesystem::path kModel = RINGLET_TESTS_DIR "/oracles/mpnet";

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

TEST_CASE("the hash of a folder sees names, contents and subfolders") {
  const TemporaryFolder folder;
  const auto hash = [&] { return hash_folder(folder.path()); };
  make_folders(folder / "1_Pooling");
  write_file(folder / "1_Pooling/config.json", "{}");
  const auto before = hash();
  CHECK_EQ(hash(), before);
  write_file(folder / "1_Pooling/config.json", "{ }");
  const auto changed = hash();
  CHECK_NE(changed, before);
  std::filesystem::rename(folder / "1_Pooling", folder / "2_Pooling");
  CHECK_NE(hash(), changed);
}
