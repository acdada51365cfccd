#include "ringlet/train/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <array>

#include "../../files.h"
#include "../words.h"
#include "../words_loss.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/comm/launch.h"
#include "ringlet/comm/rows.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"
#include "ringlet/train/checkpoint/snapshot.h"
#include "ringlet/train/optimizer/update_rules.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// A model after one step.
struct Trained {
  explicit Trained(std::int64_t classes = 3) : loss(words::loss(classes)), optimizer(*loss) {
    for (const nn::Parameter& parameter : loss->parameters()) sum(parameter * parameter).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  std::shared_ptr<words::Loss> loss;
  AdamW optimizer;
};

const TrainerState kState{.step = 7,
                          .position = {2, 1},
                          .generator = {~std::uint64_t{0}, 7, 3},
                          .arguments = {{"--lr", "0.02"}},
                          .loss = {0.1, 3},
                          .epoch_loss = {0.2, 5},
                          .run_loss = {0.7, 7},
                          .lone_rows = 4,
                          .dataset_losses = {{0.1, 2}, {0, 1}},
                          .dataset_run_losses = {{0.5, 4}, {0.2, 3}},
                          .best = BestModel{0.625, 4},
                          .callbacks = {{"patience", 2}}};

/// A model that registers a module with a buffer twice.
struct Counted : words::Loss {
  struct Counter : nn::Module {
    Counter() { register_buffer("calls", zeros({2}, DType::i64)); }
  };
  Counted() : words::Loss(words::encoder(), 2) {
    register_module("first", counter);
    register_module("second", counter);
  }
  Tensor calls() const { return counter->named_buffers()[0].second; }
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
};

}  // namespace

TEST_CASE("a checkpoint brings back parameters, moments and state to the bit") {
  TemporaryFolder folder;
  Trained saved;
  save_checkpoint(folder / "checkpoint-7", *saved.loss, saved.optimizer, kState);
  CHECK(folder.entries() == 1);

  const auto fresh = words::loss(3);
  AdamW optimizer(*fresh);
  const TrainerState state = load_checkpoint(folder / "checkpoint-7", *fresh, optimizer);
  CHECK(parameter_values(*fresh) == parameter_values(*saved.loss));
  CHECK(state.step == 7);
  CHECK(state.position == Position{2, 1});
  CHECK(state.generator.seed == ~std::uint64_t{0});
  CHECK(state.generator.draws == 3);
  CHECK(state.loss == kState.loss);
  CHECK(state.epoch_loss == kState.epoch_loss);
  CHECK(state.run_loss == kState.run_loss);
  CHECK(state.lone_rows == kState.lone_rows);
  CHECK(state.dataset_losses == kState.dataset_losses);
  CHECK(state.dataset_run_losses == kState.dataset_run_losses);
  CHECK(state.arguments == kState.arguments);
  CHECK((state.best == kState.best));
  CHECK(state.callbacks == kState.callbacks);
  const auto before = saved.optimizer.state(), after = optimizer.state();
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(after[i].name == before[i].name);
    CHECK(after[i].steps == 1);
    for (std::size_t m = 0; m < 2; ++m)
      CHECK(after[i].moments[m].second.to_vector() == before[i].moments[m].second.to_vector());
  }
}

TEST_CASE("a checkpoint is plain safetensors under the parameters' names") {
  TemporaryFolder folder;
  Trained saved;
  save_checkpoint(folder / "c", *saved.loss, saved.optimizer, kState);
  CHECK(SafeTensors::open(folder / "c" / "model.safetensors").shape("classifier.weight") ==
        Shape{3, 16});
  CHECK(SafeTensors::open(folder / "c" / "optimizer.safetensors")
            .shape("embeddings.weight/exp_avg_sq") == Shape{9, 8});
}

TEST_CASE("buffers are saved once, under their first name, and brought back") {
  TemporaryFolder folder;
  Counted saved;
  AdamW optimizer(saved);
  saved.calls().fill_(3);
  save_checkpoint(folder / "c", saved, optimizer, kState);
  const SafeTensors file = SafeTensors::open(folder / "c" / "model.safetensors");
  CHECK(file.dtype("first.calls") == DType::i64);
  CHECK_FALSE(file.contains("second.calls"));

  Counted fresh;
  AdamW fresh_optimizer(fresh);
  load_checkpoint(folder / "c", fresh, fresh_optimizer);
  CHECK(fresh.calls().to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 3});
  const auto without = words::loss(2);
  AdamW other(*without);
  CHECK(message_of<InputError>([&] { load_checkpoint(folder / "c", *without, other); }) ==
        str((folder / "c" / "model.safetensors").string(),
            ": tensor 'first.calls' is no parameter of this model"));
}

TEST_CASE("a checkpoint of another model is refused by name and shape, nothing is changed") {
  TemporaryFolder folder;
  Trained saved(3);
  save_checkpoint(folder / "c", *saved.loss, saved.optimizer, kState);
  const auto other = words::loss(2);
  AdamW optimizer(*other);
  const auto before = parameter_values(*other);
  CHECK(message_of<InputError>([&] { load_checkpoint(folder / "c", *other, optimizer); }) ==
        str((folder / "c" / "model.safetensors").string(),
            ": tensor 'classifier.weight': expected shape (2, 16), found (3, 16)"));
  CHECK(parameter_values(*other) == before);

  AdamW for_encoder(*words::encoder());
  const auto encoder = words::encoder();
  AdamW small(*encoder);
  CHECK(message_of<InputError>([&] { load_checkpoint(folder / "c", *encoder, small); }) ==
        str((folder / "c" / "model.safetensors").string(),
            ": tensor 'classifier.weight' is no parameter of this model"));
}

TEST_CASE("a damaged file, or one of another checkpoint, is refused by name, nothing is changed") {
  TemporaryFolder folder;
  Trained saved(3), later(3);
  const auto path = folder / "c", other = folder / "later";
  save_checkpoint(path, *saved.loss, saved.optimizer, kState);
  TrainerState state = kState;
  state.step = 8;
  for (const nn::Parameter& parameter : later.loss->parameters())
    sum(parameter * parameter).backward();
  later.optimizer.step();
  save_checkpoint(other, *later.loss, later.optimizer, state);
  const auto before = parameter_values(*saved.loss);
  const auto refused = [&](const std::filesystem::path& file) {
    const std::string what =
        message_of<InputError>([&] { load_checkpoint(path, *saved.loss, saved.optimizer); });
    CAPTURE(what);
    CHECK(what.find(path.string()) == 0);
    CHECK(what.find(file.filename().string()) != std::string::npos);
    CHECK(what.find('\n') == std::string::npos);
    CHECK(parameter_values(*saved.loss) == before);
  };
  const auto files = list_folder(path);
  CHECK(files.size() == 4);
  for (const std::filesystem::path& file : files) {
    CAPTURE(file);
    const std::string whole = read_file(file);
    const auto with = [&](const std::string& text) {
      write_file(file, text);
      refused(file);
    };
    for (const std::size_t at : {std::size_t{0}, whole.size() / 3, whole.size() / 2,
                                 whole.size() * 9 / 10, whole.size() - 1}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 1);
      with(flipped);
    }
    with("");
    with(whole.substr(0, whole.size() - 1));
    with(whole + '\0');
    with(read_file(other / file.filename().string()));
    remove_path(file);
    refused(file);
    write_file(file, whole);
  }
  CHECK(load_checkpoint(path, *saved.loss, saved.optimizer).step == 7);
  write_file(path / "model.safetensors", read_file(other / "model.safetensors"));
  CHECK(message_of<InputError>([&] {
          load_checkpoint_model(path, *saved.loss);
        }).find((path / "model.safetensors").string() + ": damaged, or of another checkpoint") ==
        0);
}

TEST_CASE("a state that is none is refused in one line that names the file") {
  TemporaryFolder folder;
  Trained saved;
  const auto path = folder / "c";
  const auto refused = [&](const std::string& file, const std::string& text) {
    save_checkpoint(path, *saved.loss, saved.optimizer, kState);
    write_file(path / file, text);
    checkpoint::write_digests(path);
    const std::string what =
        message_of<InputError>([&] { load_checkpoint(path, *saved.loss, saved.optimizer); });
    CHECK(what.find((path / file).string()) == 0);
    CHECK(what.find('\n') == std::string::npos);
  };
  refused("trainer_state.json", "{");
  refused("trainer_state.json", "{}");
  refused("trainer_state.json", "[1]");
  refused("trainer_state.json", "{\"format\": 9}");
  refused("model.safetensors", "");
  refused("optimizer.safetensors", "garbage");
  CHECK(message_of<InputError>(
            [&] { load_checkpoint(folder / "none", *saved.loss, saved.optimizer); }) != "");
}

TEST_CASE("a full disk leaves no part of a checkpoint, and the old one") {
  TemporaryFolder folder;
  Trained saved;
  save_checkpoint(folder / "c", *saved.loss, saved.optimizer, kState);
  TrainerState later = kState;
  later.step = 8;
  {
    const FullDisk full(1000);
    CHECK_THROWS_AS(save_checkpoint(folder / "c", *saved.loss, saved.optimizer, later), InputError);
    CHECK_THROWS_AS(save_checkpoint(folder / "d", *saved.loss, saved.optimizer, later), InputError);
  }
  CHECK(folder.entries() == 1);
  CHECK(load_checkpoint(folder / "c", *saved.loss, saved.optimizer).step == 7);
}

TEST_CASE("folders without a state are no checkpoints: neither the latest nor rotated away") {
  TemporaryFolder folder;
  for (const char* name : {"checkpoint-5", "checkpoint-10", "checkpoint-20", "checkpoint-35"})
    std::filesystem::create_directory(folder / name);
  CHECK_FALSE(latest_checkpoint(folder.path()).has_value());
  CHECK(later_strays(folder.path()).size() == 4);
  write_file(folder / "checkpoint-10" / "trainer_state.json", "");
  write_file(folder / "checkpoint-35" / "notes.txt", "");
  CHECK(latest_checkpoint(folder.path()) == checkpoint_path(folder.path(), 10));
  CHECK(later_strays(folder.path()) ==
        std::vector{folder / "checkpoint-20", folder / "checkpoint-35"});
  rotate_checkpoints(folder.path(), 1, {});
  CHECK(folder.entries() == 4);
}

TEST_CASE("the latest checkpoints are kept, by step and not by name") {
  TemporaryFolder folder;
  for (const char* name :
       {"checkpoint-9", "checkpoint-10", "checkpoint-100", "checkpoint-x", "run"}) {
    std::filesystem::create_directory(folder / name);
    write_file(folder / name / "trainer_state.json", "");
  }
  CHECK(latest_checkpoint(folder.path()) == checkpoint_path(folder.path(), 100));
  rotate_checkpoints(folder.path(), 0, {});
  CHECK(folder.entries() == 5);
  rotate_checkpoints(folder.path(), 2, {9, 10});
  CHECK(folder.entries() == 4);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint-100"));
  std::filesystem::create_directory(folder / "checkpoint-100");
  write_file(folder / "checkpoint-100" / "trainer_state.json", "");
  rotate_checkpoints(folder.path(), 1, {9, 10, 100});  // none that may go
  CHECK(folder.entries() == 5);
  rotate_checkpoints(folder.path(), 2, {});
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint-9"));
  CHECK_FALSE(latest_checkpoint(folder / "run").has_value());
  CHECK_FALSE(latest_checkpoint(folder / "none").has_value());
  const std::string long_name(300, 'x');  // no file system has such names
  CHECK(message_of<InputError>([&] { latest_checkpoint(folder / long_name); }) ==
        (folder / long_name).string() + ": cannot look at it: File name too long");
}

TEST_CASE("copies of shards make the whole training again if each shard has a rank left") {
  constexpr std::int64_t kClasses = 3000;  // a shard has several blocks
  constexpr int kRanks = 3;
  std::array<std::vector<ShardCopies>, kRanks> copies;
  const auto copy = [&](const comm::Group& group) {
    Trained saved(kClasses);
    copy_shards(copies[static_cast<std::size_t>(group.rank())], {kState}, *saved.loss,
                saved.optimizer, group);
  };
  comm::launch(copy, kRanks);

  const auto go_on = [&](const comm::Group& group) {  // without rank 1
    Trained saved(kClasses), other(kClasses);
    Tensor(other.loss->arena()->data()).zero_();
    other.optimizer.load_state({});
    std::optional<Snapshot> mine =
        Snapshot{.state = {}, .copies = copies[group.rank() == 0 ? 0 : 2]};
    REQUIRE(agree_on_snapshot(mine, *other.loss, group));
    CHECK_EQ(mine->holders, std::vector{0, 1, 0});
    CHECK_EQ(mine->state.arguments, kState.arguments);
    load_shards(*mine, *other.loss, other.optimizer, group);
    CHECK_EQ(other.loss->arena()->data().to_vector<float>(),
             saved.loss->arena()->data().to_vector<float>());
    const auto expected = saved.optimizer.state(), found = other.optimizer.state();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK_EQ(found[i].steps, 1);
      for (std::size_t m : {0, 1})
        CHECK_EQ(found[i].moments[m].second.to_vector<float>(),
                 expected[i].moments[m].second.to_vector<float>());
    }
  };
  comm::launch(go_on, 2);
  std::optional<Snapshot> alone =
      Snapshot{.state = {}, .copies = copies[1]};  // without ranks 0 and 2
  CHECK_FALSE(agree_on_snapshot(alone, *words::loss(kClasses), {}));
}

TEST_CASE("a snapshot stays whole if the rank that wants it ends") {
  const auto rank_main = [](const comm::Group& group) {
    const auto loss = words::loss(3);
    if (group.rank() == 1) {  // agrees that it has none, then ends
      comm::all_gather_values<char>(group, {});
      fail("is gone");
    }
    std::optional<Snapshot> mine = Snapshot{.state = kState, .moments = {{"weight", 7, {}}}};
    CHECK_THROWS_AS(agree_on_snapshot(mine, *loss, group), Error);
    REQUIRE(mine);
    CHECK_EQ(mine->state.step, kState.step);
    CHECK_EQ(mine->state.arguments, kState.arguments);
    CHECK_EQ(mine->moments.size(), 1);
  };
  CHECK_THROWS_AS(comm::launch(rank_main, 2), Error);
}
