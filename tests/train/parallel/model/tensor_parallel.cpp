// Tensor parallelism against one device that adds the same partial products in the same order.
#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "../../../device.h"
#include "../../../files.h"
#include "../tiny.h"
#include "ringlet/core/io/file.h"
#include "ringlet/tests/comm/ranks.h"
#include "ringlet/tests/extended.h"
#include "ringlet/train/checkpoint/checkpoint.h"

using namespace ringlet;
using namespace ringlet::train;
using models::Architecture;

namespace {

constexpr int kSteps = 5;

models::EncoderConfig config(Architecture architecture) {
  models::EncoderConfig config = words::encoder_config(architecture);
  config.hidden_size = 48;
  config.num_attention_heads = 12;
  config.intermediate_size = 96;
  return config;
}

/// An encoder with dropout and a loss with a head.
struct Model {
  explicit Model(Architecture architecture, std::uint64_t seed = 5)
      : guard({seed, 0, 0}),
        encoder(config(architecture), words::tokenizer()),
        loss(encoder, /*labels=*/3) {
    for (const auto& [name, parameter] : loss.named_parameters())
      if (name.ends_with("bias"))
        parameter.mutable_tensor().copy_(normal(parameter.shape(), 0, 0.1));
    default_generator() = {42, 0, 0};
  }
  TensorPlan plan(bool vocabulary = false) const {
    return encoder_tensor_plan(encoder.config(), vocabulary);
  }
  GeneratorGuard guard;
  models::SentenceEncoder encoder;
  models::SoftmaxLoss loss;
};

struct How {
  Architecture architecture = Architecture::mpnet;
  DType dtype = DType::f32;
  bool vocabulary = false;
  bool recompute = false;
  int backwards = 1;  // per step
  bool sequence = false;
};

/// The loss of every step, then all gradients, whole; at the end the weights.
using Trace = std::vector<std::vector<float>>;

struct Step {
  Step(Model& model, double max_grad_norm = 0, std::size_t rank = 0, std::size_t ranks = 1)
      : model(model),
        optimizer(model.loss, {.lr = 1e-3, .weight_decay = 0.01, .max_grad_norm = max_grad_norm}),
        loader({words::dataset(31, 3)}, model.encoder.tokenizer(),
               {.batch_size = 6, .seed = 7, .rank = rank, .world_size = ranks}) {}
  double backward() {
    const Variable value = model.loss(tiny::next(model.loss, loader));
    value.backward();
    return value.tensor().to_vector<double>()[0];
  }
  void update() {
    optimizer.step();
    optimizer.zero_grad();
  }
  Model& model;
  AdamW optimizer;
  Loader<models::PackedBatch> loader;
};

void add_gradients(Trace& trace, const Model& model) {
  for (const nn::Parameter& parameter : model.loss.parameters()) {
    const auto& slice = parameter.state()->slice;
    const Tensor grad = parameter.grad();
    trace.push_back((slice && grad ? slice->gather(grad) : grad).to_vector());
  }
}

Trace trace_of(Model& model, const How& how) {
  model.encoder.transformer()->set_compute_dtype(how.dtype);
  model.encoder.transformer()->set_checkpointing(how.recompute);
  Step step(model);
  Trace trace;
  for (int i = 0; i < kSteps; ++i) {
    for (int k = 1; k < how.backwards; ++k) step.backward();
    trace.push_back({static_cast<float>(step.backward())});
    add_gradients(trace, model);
    step.update();
  }
  nn::WholeParameters whole(model.loss);
  for (const nn::Parameter& parameter : model.loss.parameters())
    trace.push_back(whole(parameter).to_vector());
  return trace;
}

TrainerState at_step(std::int64_t step) {
  TrainerState state;
  state.step = step;
  return state;
}

/// The training on one device, in n slices.
Trace reference(int n, const How& how) {
  Model model(how.architecture);
  const TensorParallel tensor(model.loss, comm::Group(), model.plan(),
                              {.slices = n, .sequence = how.sequence});
  return trace_of(model, how);
}

void check_equal(const Trace& trace, const Trace& expected, const Model& model) {
  const std::vector<nn::NamedParameter> named = model.loss.named_parameters();
  RINGLET_CHECK_EQ(trace.size(), expected.size(), "values");
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::size_t in_step = i % (named.size() + 1);
    RINGLET_CHECK(trace[i] == expected[i], i > kSteps * (named.size() + 1) ? "weight " : "value ",
                  i, ", of step ", i / (named.size() + 1), ": ",
                  in_step == 0 ? "the loss" : named[in_step - 1].name);
  }
}

/// Throws unless every rank of n has the reference's values. Ranks start from different weights.
void check_ranks(int n, const How& how, const Trace& expected,
                 comm::TransportKind transport = comm::TransportKind::thread) {
  comm::launch(
      [&](const comm::Group& group) {
        Model model(how.architecture, group.rank() == 0 ? 5 : 99);
        const TensorParallel tensor(model.loss, group, model.plan(how.vocabulary),
                                    {.sequence = how.sequence});
        check_equal(trace_of(model, how), expected, model);
      },
      n, {.ranks = comm::Ranks::threads, .group = {.transport = transport}});
}

}  // namespace

TEST_CASE("n ranks have the bits of one device that adds n partial products by the tree") {
  for (const Architecture architecture : {Architecture::bert, Architecture::mpnet}) {
    for (const int n : grid({2, 3}, {4, 6, 12})) {
      const How how{architecture};
      const Trace expected = reference(n, how);
      for (const comm::TransportKind transport : comm::transports()) {
        if (n == 12 && transport != comm::TransportKind::thread) continue;
        INFO(n, " ranks, ", comm::name(transport));
        CHECK_NOTHROW(check_ranks(n, how, expected, transport));
      }
    }
  }
}

TEST_CASE("n partial products differ from the uncut product by rounding alone") {
  for (const Architecture architecture : {Architecture::bert, Architecture::mpnet}) {
    Model plain(architecture);
    const Trace uncut = trace_of(plain, {architecture});
    const std::vector<nn::NamedParameter> names = plain.loss.named_parameters();
    CHECK_NOTHROW(check_equal(reference(1, {architecture}), uncut, plain));
    for (const int n : grid({2, 3}, {4, 6, 12})) {
      const Trace cut = reference(n, {architecture});
      CHECK(cut != uncut);
      // The loss and gradients of the first step: sums of at most 144 terms, through two layers.
      for (std::size_t i = 0; i <= names.size(); ++i) {
        const std::string name = i == 0 ? "loss" : names[i - 1].name;
        if (name.ends_with("k.bias") || name.ends_with("key.bias")) continue;  // it is 0, exactly
        INFO(n, " ranks, ", name);
        const float largest = std::ranges::max(uncut[i], {}, [](float x) { return std::abs(x); });
        const double allowed = 2 * 144 * 0x1p-24 * std::abs(largest);
        double error = 0;
        for (std::size_t k = 0; k < cut[i].size(); ++k)
          error = std::max<double>(error, std::abs(cut[i][k] - uncut[i][k]));
        CHECK(error <= allowed);
      }
    }
  }
}

TEST_CASE("bf16, recomputed layers, a table cut by words and several backwards have those bits") {
  for (const Architecture architecture :
       {Architecture::roberta, Architecture::xlm_roberta, Architecture::distilbert})
    CHECK_NOTHROW(check_ranks(2, {architecture}, reference(2, {architecture})));
  for (const Architecture architecture : {Architecture::bert, Architecture::mpnet})
    for (const int n : grid({3}, {2, 4})) {
      INFO(n, " ranks");
      CHECK_NOTHROW(
          check_ranks(n, {.architecture = architecture, .dtype = DType::bf16},
                      reference(n, {.architecture = architecture, .dtype = DType::bf16})));
      const Trace expected = reference(n, {architecture});
      CHECK_NOTHROW(check_ranks(n, {.architecture = architecture, .recompute = true}, expected));
      CHECK_NOTHROW(check_ranks(n, {.architecture = architecture, .vocabulary = true}, expected));
      CHECK_NOTHROW(check_ranks(n, {.architecture = architecture, .backwards = 3},
                                reference(n, {.architecture = architecture, .backwards = 3})));
    }
}

TEST_CASE("sequence parallelism has the bits of one device that adds the gradients of n pieces") {
  for (const Architecture architecture : {Architecture::bert, Architecture::mpnet})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int n : grid({3}, {2, 4})) {
        How how{.architecture = architecture, .dtype = dtype, .sequence = true};
        const Trace expected = reference(n, how);
        for (const comm::TransportKind transport : comm::transports()) {
          INFO(n, " ranks, ", comm::name(transport), ", ", dtype);
          CHECK_NOTHROW(check_ranks(n, how, expected, transport));
        }
        how.recompute = true;
        CHECK_NOTHROW(check_ranks(n, how, expected));
        if (dtype == DType::bf16) continue;  // its sums in f32 may be exact in any order
        how.sequence = false;                // LayerNorms' gradients are summed in another order
        CHECK(reference(n, how) != expected);
      }
  for (const Architecture architecture :
       {Architecture::roberta, Architecture::xlm_roberta, Architecture::distilbert}) {
    const How how{.architecture = architecture, .sequence = true};
    CHECK_NOTHROW(check_ranks(3, how, reference(3, how)));
  }
  const How how{.vocabulary = true, .backwards = 3, .sequence = true};
  CHECK_NOTHROW(check_ranks(3, how, reference(3, how)));
}

TEST_CASE("under sequence parallelism there may be fewer tokens than ranks") {
  const auto run = [](const comm::Group& group, int slices, std::size_t tokens) {
    Model model(Architecture::mpnet);
    const TensorParallel tensor(model.loss, group, model.plan(),
                                {.slices = slices, .sequence = true});
    const std::vector<std::int32_t> ids(tokens, words::kA);
    const std::span<const std::int32_t> sentence(ids);
    models::BatchBuilder builder;
    builder.add_row({&sentence, 1}, 0);
    const models::PackedBatch batch = model.loss.placed(builder.build());
    const Variable hidden = (*model.encoder.transformer())(batch);
    autograd::sum(autograd::square(hidden)).backward();
    Trace trace{hidden.tensor().to_vector()};
    for (const nn::NamedParameter& one : model.encoder.transformer()->named_parameters())
      if (one.name.ends_with("LayerNorm.weight") || one.name.ends_with("dense.bias")) {
        const auto& slice = one.parameter.state()->slice;
        const Tensor grad = one.parameter.grad();
        trace.push_back((slice ? slice->gather(grad) : grad).to_vector());
      }
    return trace;
  };
  for (const std::size_t tokens : {0, 1, 2, 3, 5}) {
    const Trace expected = run({}, 4, tokens);
    CHECK_NOTHROW(comm::launch(
        [&](const comm::Group& group) {
          RINGLET_CHECK(run(group, 1, tokens) == expected, tokens, " tokens: values");
        },
        4));
  }
}

TEST_CASE("under sequence parallelism a rank keeps less for backward" *
          doctest::test_suite("host")) {
  const auto check = [](const comm::Group& group) {
    double tokens = 0;
    // Bytes that a forward leaves for its backward, and the most so far.
    const auto step = [&](bool sequence, bool recompute) {
      Model model(Architecture::mpnet);
      model.encoder.transformer()->set_checkpointing(recompute);
      const TensorParallel tensor(model.loss, group, model.plan(), {.sequence = sequence});
      const models::PackedBatch batch = [&] {  // its loader ends: its thread takes memory, too
        Loader loader({words::dataset(640, 3)}, model.encoder.tokenizer(), {.batch_size = 320});
        return tiny::next(model.loss, loader);
      }();
      tokens = static_cast<double>(batch.tokens());
      model.loss(batch).backward();  // buffers of gradients and of the transport stay
      const std::size_t before = memory_stats({}).allocated;
      const Variable loss = model.loss(batch);
      const std::size_t kept = memory_stats({}).allocated - before;
      loss.backward();
      return std::pair(static_cast<double>(kept), static_cast<double>(memory_stats({}).peak));
    };
    for (const bool recompute : {true, false}) {
      const auto [kept, peak] = step(true, recompute);
      const auto [plain, plain_peak] = step(false, recompute);
      // Two layers keep a share of their input, or of two LayerNorms' normalized rows.
      const double others = tokens - std::ceil(tokens / group.size());
      const double expected = 2 * (recompute ? 1 : 2) * others * 48 * sizeof(float);
      RINGLET_CHECK(plain - kept > 0.99 * expected && plain - kept < 1.05 * expected, "kept ", kept,
                    " bytes, without sequence ", plain, ", expected less by ", expected);
      RINGLET_CHECK(plain_peak - peak > expected, "peak ", peak, ", without sequence ", plain_peak);
    }
  };
  comm::launch(check, 4, {.ranks = comm::Ranks::processes});
}

TEST_CASE("a rank keeps its slices alone, under the names of the whole parameters") {
  const Model whole(Architecture::mpnet);
  comm::launch(
      [&](const comm::Group& group) {
        Model model(Architecture::mpnet);
        const TensorParallel tensor(model.loss, group, model.plan(/*vocabulary=*/true));
        const auto expected = whole.loss.named_parameters(), named = model.loss.named_parameters();
        RINGLET_CHECK_EQ(named.size(), expected.size(), "parameters");
        for (std::size_t i = 0; i < named.size(); ++i)
          RINGLET_CHECK_EQ(named[i].name, expected[i].name, "name");
        const auto shape = [&](const std::string& name) {
          const nn::Parameter one = model.loss.parameter(name);
          RINGLET_CHECK_EQ(one.tensor().storage()->nbytes(), one.tensor().nbytes(), name);
          return one.shape();
        };
        const std::string layer = "encoder.layer.0.";
        RINGLET_CHECK_EQ(shape(layer + "attention.attn.q.weight"), Shape({12, 48}), "q");
        RINGLET_CHECK_EQ(shape(layer + "attention.attn.q.bias"), Shape({12}), "q's bias");
        RINGLET_CHECK_EQ(shape(layer + "attention.attn.o.weight"), Shape({48, 12}), "o");
        RINGLET_CHECK_EQ(shape(layer + "attention.attn.o.bias"), Shape({48}), "o's bias");
        RINGLET_CHECK_EQ(shape(layer + "intermediate.dense.weight"), Shape({24, 48}), "wide");
        RINGLET_CHECK_EQ(shape(layer + "output.dense.weight"), Shape({48, 24}), "narrow");
        RINGLET_CHECK_EQ(shape("encoder.relative_attention_bias.weight"), Shape({32, 3}), "bias");
        // Nine words among four ranks.
        RINGLET_CHECK_EQ(shape("embeddings.word_embeddings.weight"),
                         Shape({group.rank() == 3 ? 3 : 2, 48}), "words");
      },
      4);
}

TEST_CASE("folders and checkpoints are those of one device") {
  for (const Architecture architecture : {Architecture::bert, Architecture::mpnet}) {
    const TemporaryFolder folder;
    const auto run = [&](const comm::Group& group, int slices, const std::string& name) {
      Model model(architecture);
      const TensorParallel tensor(model.loss, group, model.plan(/*vocabulary=*/slices == 1),
                                  {.slices = slices});
      Step step(model);
      for (int i = 0; i < 3; ++i) {
        step.backward();
        step.update();
      }
      model.encoder.save(folder / name);
      save_checkpoint(folder / (name + "-3"), model.loss, step.optimizer, at_step(3));
      step.backward();
      step.update();
      save_checkpoint(folder / (name + "-4"), model.loss, step.optimizer, at_step(4));
    };
    run({}, 3, "one");
    comm::launch([&](const comm::Group& group) { run(group, 1, "ranks"); }, 3);
    for (const char* file : {"/model.safetensors", "-3/model.safetensors",
                             "-3/optimizer.safetensors", "-4/model.safetensors"})
      CHECK((read_file(folder / ("ranks" + std::string(file))) ==
             read_file(folder / ("one" + std::string(file)))));

    // A checkpoint of one device goes on with three ranks, with the same bits.
    comm::launch(
        [&](const comm::Group& group) {
          Model model(architecture, 99);
          const TensorParallel tensor(model.loss, group, model.plan());
          Step step(model);
          load_checkpoint(folder / "one-3", model.loss, step.optimizer);
          for (int i = 0; i < 3; ++i) tiny::next(model.loss, step.loader);
          default_generator() = {42, 3, 0};
          step.backward();
          step.update();
          save_checkpoint(folder / "resumed-4", model.loss, step.optimizer, at_step(4));
        },
        3);
    CHECK((read_file(folder / "resumed-4/model.safetensors") ==
           read_file(folder / "one-4/model.safetensors")));
    // And one of three ranks with two.
    comm::launch(
        [&](const comm::Group& group) {
          Model model(architecture, 99);
          const TensorParallel tensor(model.loss, group, model.plan(/*vocabulary=*/true));
          Step step(model);
          load_checkpoint(folder / "ranks-3", model.loss, step.optimizer);
          save_checkpoint(folder / "two-3", model.loss, step.optimizer, at_step(3));
        },
        2);
    CHECK((read_file(folder / "two-3/optimizer.safetensors") ==
           read_file(folder / "one-3/optimizer.safetensors")));
  }
}

TEST_CASE("the global norm has every parameter once") {
  const auto norms = [](const comm::Group& group, int slices) {
    Model model(Architecture::mpnet);
    const TensorParallel tensor(model.loss, group, model.plan(/*vocabulary=*/slices == 1),
                                {.slices = slices});
    Step step(model, /*max_grad_norm=*/0.05);
    std::vector<double> norms;
    for (int i = 0; i < kSteps; ++i) {
      step.backward();
      step.update();
      step.optimizer.check_steps();
      norms.push_back(step.optimizer.grad_norm());
    }
    return norms;
  };
  for (const int n : {2, 4}) {
    const std::vector<double> expected = norms({}, n);
    comm::launch(
        [&](const comm::Group& group) {
          const std::vector<double> found = norms(group, 1);
          for (std::size_t i = 0; i < found.size(); ++i)  // the blocks of the sum are others
            RINGLET_CHECK(std::abs(found[i] - expected[i]) < 1e-12 * expected[i], "norm of step ",
                          i, ": ", found[i], ", expected ", expected[i]);
        },
        n);
  }
}

TEST_CASE("under a strategy over the data each rank's gradients are those of its slices") {
  // Two shares of the data; each is computed by two tensor ranks, or by one rank in two slices.
  bool sequence = false;
  const auto train = [&](const auto& attach, Model& model, const Mesh& mesh, int slices) {
    const TensorParallel tensor(model.loss, mesh.tensor, model.plan(),
                                {.slices = slices, .sequence = sequence});
    const auto strategy = attach(model.loss, mesh.data);
    Step step(model, 0, static_cast<std::size_t>(mesh.data.rank()), 2);
    for (int i = 0; i < kSteps; ++i) {
      step.backward();
      step.update();
    }
    return tiny::bits(model.loss);
  };
  const auto check = [&](const char* name, const auto& attach) {
    CAPTURE(name);
    tiny::Bits expected;
    comm::launch(
        [&](const comm::Group& world) {
          Model model(Architecture::mpnet);
          const tiny::Bits bits = train(attach, model, make_mesh(world, {}), 2);
          if (world.rank() == 0) expected = bits;
        },
        2);
    CHECK_NOTHROW(comm::launch(
        [&](const comm::Group& world) {
          Model model(Architecture::mpnet, world.rank() == 0 ? 5 : 99);
          RINGLET_CHECK(train(attach, model, make_mesh(world, {.tensor = 2}), 1) == expected,
                        "bits");
        },
        4));
  };
  for (const bool with_sequence : {false, true}) {
    sequence = with_sequence;
    check("DDP", [](nn::Module& module, const comm::Group& group) {
      return std::make_unique<DistributedDataParallel>(module, group);
    });
    check("ZeRO-1", [](nn::Module& module, const comm::Group& group) {
      return std::make_unique<ShardedDataParallel>(module, group, ShardedDataParallelOptions{1});
    });
    check("FSDP", [](nn::Module& module, const comm::Group& group) {
      return std::make_unique<FullySharded>(module, group);
    });
  }
}

TEST_CASE("a layer sends 8 (n - 1) / n times the bytes of its activations in a step") {
  const auto check = [](const comm::Group& group, DType dtype, bool sequence) {
    Model model(Architecture::mpnet);
    model.encoder.transformer()->set_compute_dtype(dtype);
    const TensorParallel tensor(model.loss, group, model.plan(), {.sequence = sequence});
    Step step(model);
    const models::PackedBatch batch = tiny::next(model.loss, step.loader);
    const std::uint64_t before = group.stats().bytes_sent;
    model.loss(batch).backward();
    // Pieces of an all-reduce end at multiples of 64 bytes: ranks differ by as much.
    std::uint64_t sent = 0;
    for (const std::string& one :
         group.all_gather_bytes(std::to_string(group.stats().bytes_sent - before)))
      sent += std::stoull(one);
    const auto others = static_cast<std::uint64_t>(group.size() - 1);
    const auto bytes = static_cast<std::uint64_t>(batch.tokens()) * 48 * itemsize(dtype);
    // With `sequence` also the encoder's two ends, and of each layer the gradients of two
    // LayerNorms and two biases.
    const std::uint64_t more = sequence ? 2 * bytes + 2 * 2 * (2 * 2 + 2) * 48 * sizeof(float) : 0;
    RINGLET_CHECK_EQ(sent, others * (2 * 8 * bytes + more), "bytes of two layers and all ranks");
  };
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int n : grid({2, 3}, {4}))
      for (const bool sequence : {false, true})
        comm::launch([&](const comm::Group& group) { check(group, dtype, sequence); }, n);
}

TEST_CASE("a rank that fails or has another batch or dtype ends all ranks, and is named") {
  const auto run = [](const std::function<void(const comm::Group&, Step&)>& step_of,
                      bool sequence = false) {
    comm::launch(
        [&](const comm::Group& group) {
          Model model(Architecture::mpnet);
          const TensorParallel tensor(model.loss, group, model.plan(), {.sequence = sequence});
          Step step(model);
          step_of(group, step);
        },
        3, {.group = {.timeout = std::chrono::seconds(20)}});
  };
  CHECK_THROWS_WITH_AS(run([](const comm::Group& group, Step& step) {
                         step.backward();
                         if (group.rank() == 1) fail("no memory");
                         step.backward();
                       }),
                       "rank 1: no memory", Error);
  CHECK_THROWS_WITH_AS(run([](const comm::Group& group, Step& step) {
                         if (group.rank() == 2)
                           step.model.encoder.transformer()->set_compute_dtype(DType::bf16);
                         step.backward();
                       }),
                       doctest::Contains("all_reduce (bf16, "), Error);
  if (default_device().type != DeviceType::cpu) return;  // fills both batches up to one size
  for (const bool sequence : {false, true})
    CHECK_THROWS_WITH_AS(run(
                             [](const comm::Group& group, Step& step) {
                               if (group.rank() == 2) tiny::next(step.model.loss, step.loader);
                               step.backward();
                             },
                             sequence),
                         doctest::Contains(sequence ? "all_gather (f32, " : "all_reduce (f32, "),
                         Error);
}

TEST_CASE("plans that do not fit are refused, and nothing is changed") {
  const auto refused = [](int n, const TensorPlan& plan, const char* message) {
    const auto run = [&](const comm::Group& group) {
      Model model(Architecture::mpnet);
      const tiny::Bits before = tiny::bits(model.loss);
      try {
        const TensorParallel tensor(model.loss, group, plan);
      } catch (const InputError&) {
        RINGLET_CHECK(tiny::bits(model.loss) == before, "the module was changed");
        throw;
      }
    };
    CHECK_THROWS_WITH_AS(comm::launch(run, n), doctest::Contains(message), Error);
  };
  const TensorPlan plan = encoder_tensor_plan(config(Architecture::mpnet));
  for (const int n : {5, 8})
    refused(n, plan,
            str("[tensor] encoder.layer.0 has 12 heads: expected one of 1, 2, 3, 4, 6, 12 ranks, "
                "found ",
                n)
                .c_str());
  refused(2, {.columns = {"layer.*.intermediat.dense"}},
          "[tensor] columns: expected the name of a layer, found 'layer.*.intermediat.dense'");
  refused(2, {.by_head = {"relative_bias"}},
          "[tensor] by_head: expected the name of a layer, found 'relative_bias'");

  Model model(Architecture::bert);
  CHECK_THROWS_AS(TensorParallel(model.loss, {}, model.plan(), {.slices = 0}), InputError);
  const AdamW optimizer(model.loss);
  CHECK_THROWS_WITH_AS(
      TensorParallel(model.loss, {}, model.plan(), {.slices = 2}),
      "[tensor] layers are cut before an optimizer or a strategy is made, not after", Error);
  Model adapted(Architecture::bert);
  nn::add_lora(adapted.loss, {.r = 2, .target_modules = {"query"}});
  Model one_attention(Architecture::bert);
  nn::add_lora(one_attention.loss, {.r = 2, .target_modules = {"layer.1.attention.self.query"}});
  Model one_layer(Architecture::bert);
  nn::add_lora(one_layer.loss, {.r = 2, .target_modules = {"layer.1.output.dense"}});
  for (Model* const model : {&adapted, &one_attention, &one_layer})
    for (const bool sequence : {false, true})
      CHECK_THROWS_WITH_AS(
          TensorParallel(model->loss, {}, model->plan(), {.slices = 2, .sequence = sequence}),
          doctest::Contains("expected no LoRA in a layer that is cut"), InputError);
  Model replaced(Architecture::bert);
  nn::replace<nn::UnaryModule>(replaced.loss, {"layer.1.attention.self.query"},
                               [](auto query) { return query; });
  CHECK_THROWS_WITH_AS(TensorParallel(replaced.loss, {}, replaced.plan(), {.slices = 2}),
                       doctest::Contains("expected no replaced part of a layer that is cut"),
                       InputError);

  Model late(Architecture::bert);
  TensorParallel(late.loss, {}, late.plan(), {.slices = 2, .sequence = true});
  nn::add_lora(late.loss, {.r = 2, .target_modules = {"layer.1.output.dense"}});
  CHECK_THROWS_WITH_AS(Step(late).backward(),
                       doctest::Contains("a part of a layer was replaced after the layer was cut"),
                       Error);
  Model later(Architecture::bert);
  TensorParallel(later.loss, {}, later.plan(), {.slices = 2});
  nn::add_lora(later.loss, {.r = 2, .target_modules = {"query"}});
  CHECK_THROWS_WITH_AS(Step(later).backward(), doctest::Contains("was replaced after the heads"),
                       Error);
}

TEST_CASE_FIXTURE(OnCpu, "a table cut by words refuses ids that it does not have") {
  const std::int64_t words = config(Architecture::mpnet).vocab_size;
  for (const std::int64_t id : {std::int64_t{-1}, words}) {
    const auto run = [&](const comm::Group& group) {
      Model model(Architecture::mpnet);
      const TensorParallel tensor(model.loss, group, model.plan(/*vocabulary=*/true));
      const std::vector<std::int32_t> ids{static_cast<std::int32_t>(id), 1};
      const std::span<const std::int32_t> sentence = ids;
      models::BatchBuilder builder;
      builder.add_row({&sentence, 1}, 0);
      const autograd::NoGrad no_grad;
      model.encoder(builder.build().to(default_device())).tensor().to_vector();
    };
    CHECK_THROWS_WITH_AS(comm::launch(run, 3), doctest::Contains("word id"), Error);
  }
}
