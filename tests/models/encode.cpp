// Embeddings of many texts: in their order, each distinct one computed once.
#include <doctest/doctest.h>

#include "oracle_batch.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/models/distinct_sentences.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

// Counts the tokens at the beginning of encoders.
struct ComputedTokens final : KernelObserver {
  std::int64_t tokens = 0;
  ComputedTokens() { kernel_observer = this; }
  ~ComputedTokens() override { kernel_observer = nullptr; }
  void before(const char* name, const void* args, Device) override {
    if (name == std::string_view("embedding_sum_layer_norm"))
      tokens += static_cast<const EmbeddingSumArgs*>(args)->tokens;
  }
  void after(const char*, const void*, Device) override {}
};

}  // namespace

TEST_CASE("distinct sentences: longest first, equal ones together, each with all its places") {
  const PackedEncoding encoded{.ids = {1, 2, 7, 8, 9, 1, 2, 4, 2, 7, 8, 9, 1, 2},
                               .cu_seqlens = {0, 2, 5, 7, 9, 12, 14, 14}};
  const DistinctSentences sentences(encoded);
  using Places = std::vector<std::size_t>;
  const auto places = [&](std::size_t d) {
    return Places(sentences.places(d).begin(), sentences.places(d).end());
  };
  REQUIRE(sentences.size() == 4);
  CHECK(places(0) == Places{1, 4});
  CHECK(places(1) == Places{0, 2, 5});
  CHECK(places(2) == Places{3});
  CHECK(places(3) == Places{6});
  CHECK(sentences.ids(0).size() == 3);
  CHECK(sentences.ids(1)[1] == 2);
  CHECK(sentences.ids(3).empty());
  CHECK(DistinctSentences(PackedEncoding{.ids = {}, .cu_seqlens = {0}}).size() == 0);
}

TEST_CASE("a text that comes again has the bits of its first embedding and is not computed") {
  const SentenceEncoder encoder = load("mpnet");
  const std::vector<std::string> once = oracle_sentences();
  std::vector<std::string> texts = once;
  texts.insert(texts.end(), once.rbegin(), once.rend());
  const auto count = static_cast<std::int64_t>(once.size());
  for (const std::int64_t batch_tokens : {1, 16, 4096}) {
    CAPTURE(batch_tokens);
    const EncodeOptions options{.batch_tokens = batch_tokens};
    const auto encode = [&](const std::vector<std::string>& of, std::int64_t& tokens) {
      ComputedTokens computed;
      Tensor embeddings = encoder.encode(of, options);
      tokens = computed.tokens;
      return embeddings;
    };
    std::int64_t tokens = 0, tokens_once = 0;
    const Tensor embeddings = encode(texts, tokens), expected = encode(once, tokens_once);
    CHECK(tokens_once > count);
    CHECK(tokens == tokens_once);
    for (std::int64_t i = 0; i < count; ++i) {
      CHECK(embeddings[i].to_vector() == expected[i].to_vector());
      CHECK(embeddings[2 * count - 1 - i].to_vector() == expected[i].to_vector());
    }
  }
  CHECK_THROWS_WITH_AS(encoder.encode(texts, {.batch_tokens = 0}), "[encode] batches of 0 tokens",
                       Error);
}
