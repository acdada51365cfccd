// The encoders compared with transformers: tests/oracles/README.md describes the files.
#include "ringlet/models/transformer.h"

#include <doctest/doctest.h>

#include "../device.h"
#include "oracle_batch.h"
#include "ringlet/models/folder.h"
#include "ringlet/nn/pack.h"

using namespace ringlet;
using namespace ringlet::models;

TEST_CASE("hidden states are those of transformers") {
  for (const char* name : kFamilies) {
    CAPTURE(name);
    const Oracle oracle(name);
    const SentenceEncoder encoder = load(name);
    encoder.transformer()->eval();
    const PackedBatch batch = make_batch(oracle, {"forward/"});
    const Variable hidden = (*encoder.transformer())(batch);
    check_close(hidden.tensor(), oracle.tensor("forward/last_hidden_state"), 1e-5);
  }
}

TEST_CASE("pooled by mean, first token and maximum, and normalized, they are the library's") {
  struct Way {
    const char* name;  // in the oracle
    Pooling pooling;
    bool normalize;
  };
  for (const char* name : kFamilies) {
    const Oracle oracle(name);
    const SentenceEncoder plain = load(name);
    plain.transformer()->eval();
    const PackedBatch batch = make_batch(oracle, {"forward/"});
    for (const Way& way :
         {Way{"mean", Pooling::mean, false}, Way{"cls", Pooling::cls, false},
          Way{"max", Pooling::max, false}, Way{"normalized", Pooling::mean, true}}) {
      CAPTURE(name);
      const SentenceEncoder encoder(plain.transformer(), plain.tokenizer(), way.pooling,
                                    way.normalize);
      // As close as the hidden states: each is a mean or a selection of them.
      check_close(encoder(batch).tensor(), oracle.tensor(str("forward/", way.name)), 1e-5,
                  way.name);
    }
  }
}

// BERT's and RoBERTa's folders have a pooler. Where there is none, the oracle brings one.
std::shared_ptr<Transformer> load_with_pooler(const std::string& name, const Oracle& oracle) {
  const std::filesystem::path folder = oracle_folder() + "/" + name;
  const auto model = Transformer::create(EncoderConfig::from_file(folder / "config.json"), true);
  if (!oracle.contains("pooler/pooler.dense.weight")) {
    CHECK(load_weights(folder, *model).empty());  // the pooler's weights are used now
  } else {
    CHECK_THROWS_AS(load_weights(folder, *model), InputError);
    for (const nn::NamedParameter& named : load(name).transformer()->named_parameters())
      model->parameter(named.name).mutable_tensor().copy_(named.parameter.tensor());
    for (const char* part : {"pooler.dense.weight", "pooler.dense.bias"})
      model->parameter(part).mutable_tensor().copy_(oracle.tensor(str("pooler/", part)));
  }
  model->to(default_device());
  model->eval();
  return model;
}

TEST_CASE("a pooler is there on request and is transformers', its gradients too") {
  for (const std::string name : {"bert", "mpnet", "xlmr", "roberta"}) {
    CAPTURE(name);
    const Oracle oracle(name);
    const auto model = load_with_pooler(name, oracle);
    const PackedBatch batch = make_batch(oracle, {"forward/"});
    const Variable pooled = model->pooled((*model)(batch), batch);
    check_close(pooled.tensor(), oracle.tensor("pooler/y"), 1e-5);
    pooled.backward(oracle.tensor("pooler/grad_y").to(default_device()));
    for (const char* part :
         {"pooler.dense.weight", "pooler.dense.bias", "embeddings.word_embeddings.weight"})
      check_close(model->parameter(part).grad(), oracle.tensor(str("pooler.grad/", part)), 1e-4,
                  part);
    for (const nn::NamedParameter& named : model->named_parameters())
      CHECK_MESSAGE(named.parameter.grad().defined(), named.name);
  }
}

TEST_CASE("a pooler without a use is left out and reported") {
  const SentenceEncoder encoder = load("bert");
  CHECK(encoder.unused_names().size() == 2);
  const auto plain = encoder.transformer();
  const PackedBatch batch = make_batch(Oracle("bert"), {"forward/"});
  CHECK_THROWS_WITH_AS(plain->pooled((*plain)(batch), batch),
                       "[BertModel] has no pooler; ask create() for one", Error);
}

TEST_CASE("every gradient of SoftmaxLoss is PyTorch's") {
  for (const char* name : kFamilies) {
    for (bool packed_arena : {false, true}) {
      CAPTURE(name);
      CAPTURE(packed_arena);
      const Oracle oracle(name);
      SoftmaxLoss loss(load_unnormalized(name), 3);
      start_from_oracle(oracle, loss);
      if (packed_arena) nn::pack(loss)->grad();
      const Variable value = loss(pair_batch(oracle, 0));
      check_close(value.tensor(), oracle.tensor("softmax_loss/loss"), 1e-5);
      value.backward();
      const double floor = 1e-6 / 1e-4 * largest_gradient(oracle, loss);
      for (const nn::NamedParameter& named : loss.named_parameters()) {
        REQUIRE(named.parameter.grad().defined());
        check_close(named.parameter.grad(), oracle.tensor("softmax_loss.grad/" + named.name), 1e-4,
                    named.name, floor);
      }
    }
  }
}

TEST_CASE("checkpointing changes no gradient, dropout on") {
  const Oracle oracle("mpnet");
  const auto gradients = [&](bool checkpointing) {
    const GeneratorGuard random({.seed = 7, .step = 3});
    const SentenceEncoder encoder = with_dropout("mpnet");
    SoftmaxLoss loss(encoder, 3);
    encoder.transformer()->set_checkpointing(checkpointing);
    return bits_of(loss_and_gradients(loss, pair_batch(oracle, 0)));
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("sentence embeddings are those of SentenceTransformer.encode") {
  const std::vector<std::string> sentences = oracle_sentences();
  for (const char* name : kFamilies) {
    CAPTURE(name);
    const Oracle oracle(name);
    check_close(load(name).encode(sentences, {.batch_tokens = 50}),
                oracle.tensor("encode/embeddings"), 1e-5);
  }
}

// In MPNet such a token has position 1 and is not counted; it trains no table in either model.
TEST_CASE("a text that spells the padding token has transformers' embedding and gradients") {
  const Oracle oracle("folders");
  for (const std::string name : {"mpnet", "bert"}) {
    CAPTURE(name);
    const SentenceEncoder encoder = load(name);
    const std::string pad = name == "mpnet" ? "<pad>" : "[PAD]";
    const std::vector<std::string> texts{"a " + pad + " dog runs", pad,
                                         "two " + pad + pad + " cats sleep " + pad + " here",
                                         "the dog " + pad, "no padding in here"};
    const std::string c = "padding/" + name + "/";
    check_close(encoder.encode(texts), oracle.tensor(c + "embeddings"), 1e-5);
    for (const bool padded : {false, true}) {
      CAPTURE(padded);
      BatchBuilder builder;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::vector<std::int32_t> ids = encoder.tokenizer().encode(texts[i]).ids;
        const std::span<const std::int32_t> column(ids);
        builder.add_row({&column, 1}, static_cast<std::int64_t>(i));
      }
      const auto pad_id = static_cast<std::int32_t>(encoder.config().pad_token_id);
      encoder.transformer()->zero_grad();
      const Variable embeddings =
          encoder(builder.build(0, padded, pad_id).to(default_device()));  // (5, H)
      check_close(embeddings.tensor(), oracle.tensor(c + "embeddings"), 1e-5);
      embeddings.backward(oracle.tensor(c + "grad").to(default_device()));
      for (const std::string table : {"word", "position"}) {
        const Tensor grad =
            encoder.transformer()->parameter("embeddings." + table + "_embeddings.weight").grad();
        check_close(grad.slice(0, 6), oracle.tensor(c + table + "_grad"), 1e-4, table);
      }
    }
  }
}

TEST_CASE("a packed batch equals a padded one, dropout on") {
  const auto run = [](const std::string& name, DType dtype, bool padded) {
    const GeneratorGuard random({.seed = 7, .step = 3});
    const SentenceEncoder encoder = with_dropout(name);
    encoder.transformer()->set_compute_dtype(dtype);
    SoftmaxLoss loss(encoder, 3);
    const auto pad = static_cast<std::int32_t>(encoder.config().pad_token_id);
    return loss_and_gradients(loss, pair_batch(Oracle(name), 0, padded, pad));
  };
  for (const char* name : kFamilies) {
    // Every sum over tokens has a term per token; the sum over pairs of tokens (the relative bias)
    // has one per pair in a sentence.
    const PackedBatch batch = pair_batch(Oracle(name), 0, true);
    double tokens = static_cast<double>(batch.tokens()), pairs = 0;
    for (double length : batch.lengths.to_vector<double>()) pairs += length * length;
    for (DType dtype : {DType::f32, DType::bf16}) {
      // precision.cpp has the error bound of bf16 for that case.
      if (dtype == DType::bf16 && !has_shape_free_products) continue;
      CAPTURE(name);
      CAPTURE(dtype);
      const NamedTensors packed = run(name, dtype, false), padded = run(name, dtype, true);
      // A real token's results have the same bits at any position: rows are independent, attention
      // covers real keys only. So the loss is the same. If products differ by shape, both results
      // are as close to the exact ones as to PyTorch's values above.
      if (has_shape_free_products)
        CHECK(padded[0].second.item() == packed[0].second.item());
      else
        check_close(padded[0].second, packed[0].second, 2 * 1e-5);
      // A parameter's gradient is a sum over tokens, kept in f32 in both dtypes; only the order of
      // its terms differs. Each order rounds n partial sums by u of their size, so the difference
      // is at most 2 n u of the largest partial sum. With terms of mixed sign partial sums have the
      // size of the result. Key biases cancel to 0 in theory; their bound uses the largest gradient
      // of the model.
      double largest = 0;
      for (std::size_t i = 1; i < packed.size(); ++i)
        for (double g : packed[i].second.to_vector<double>())
          largest = std::max(largest, std::abs(g));
      for (std::size_t i = 1; i < packed.size(); ++i) {
        const std::string& parameter = packed[i].first;
        const bool key_bias = parameter.ends_with("key.bias") || parameter.ends_with("k.bias") ||
                              parameter.ends_with("k_lin.bias");
        const double n = parameter.ends_with("relative_attention_bias.weight") ? pairs : tokens;
        const double bound = has_shape_free_products ? 2 * n * kF32 : 2 * 1e-4;
        const double smallest = has_shape_free_products ? 0x1p-126 : 1e-2 * largest;
        check_close(padded[i].second, packed[i].second, bound, parameter,
                    key_bias ? largest : smallest);
      }
    }
  }
}
