// The throughput bench, run as a user would.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/trace.h"

namespace fs = std::filesystem;

namespace {

/// A short run and its JSON.
struct Measured {
  Outcome outcome;
  ringlet::Json json;
  const ringlet::Json& row() const { return json["rows"].at(0); }
};
Measured measured(const TemporaryFolder& folder, const Words& more, const char* devices = "1") {
  const std::string rows = (folder / "rows.json").string();
  Words command = str("--devices ", devices, " --rounds 1 --json ", rows);
  const auto unless_given = [&](const char* option, const char* value) {
    if (std::find(more.begin(), more.end(), option) == more.end())
      command = command + Words{option, value};
  };
  unless_given("--batch", "2");
  unless_given("--warmup", "0");
  unless_given("--steps", "2");
  const Outcome outcome = run_program(RINGLET_THROUGHPUT, command + more);
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  return {outcome, ringlet::Json::parse(ringlet::read_file(rows))};
}

int processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

// By the host's clock; tests/bench covers those of devices.
TEST_CASE("a profile has the kernels of a step, and the time between them" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  for (const char* strategy : {"none", "ddp", "fsdp", "dp"}) {
    CAPTURE(strategy);
    const ringlet::Json row =
        measured(folder, str("--model tiny --strategy ", strategy, " --profile"), "2").row();
    CHECK(row["kernels"]["attention"]["ms"] > 0);
    CHECK(row["between_kernels_ms"] > 0);
    CHECK(row["profiled_step_ms"] > 0);
    // The other devices' threads and processes run the same calls as this one.
    CHECK(row["kernels"]["attention"]["calls"] == 2);
  }
}

TEST_CASE("the timeline of a pipeline has its computations, and the end of each step" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const std::string file = (folder / "timeline.json").string();
  measured(folder, str("--model tiny --steps 2 --strategy pipe --timeline ", file), "2");
  const Trace trace(file);
  for (const char* phase : {"1F0", "1F1", "1B1", "optimizer"})
    CHECK_EQ(trace.number_of("pipe, rank 1", "phase", phase), 2);
}

TEST_CASE("the timeline of several rows has the phases and waits of every rank" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const std::string file = (folder / "timeline.json").string();
  const Measured run =
      measured(folder, str("--model tiny --strategy none,ddp,fsdp --timeline ", file), "2");
  const Trace trace(file);
  for (const std::string strategy : {"none", "ddp", "fsdp"}) {
    CAPTURE(strategy);
    CHECK(trace.most_ms(strategy, "phase", "forward") > 0);
    CHECK(trace.most_ms(strategy, "kernel", "attention") > 0);
    CHECK(trace.most_ms(strategy, "wait", "data") > 0);
    for (const char* kind : {"collective", "step"})
      CHECK((trace.most_ms(strategy, kind, "") > 0) == (strategy != "none"));
  }
  CHECK_EQ(trace.processes, std::vector<std::string>{"none, rank 0", "ddp, rank 0", "ddp, rank 1",
                                                     "fsdp, rank 0", "fsdp, rank 1"});
  const std::string svg = ringlet::read_file(folder / "timeline.svg");
  for (const std::string& process : trace.processes) CHECK(contains(svg, ">" + process + ": "));
}

TEST_CASE("a timeline's file is checked before minutes of work") {
  const auto refused = [](const Words& command, const std::string& error) {
    const Outcome outcome =
        run_program(RINGLET_THROUGHPUT, Words("--model tiny --devices 1") + command);
    CHECK_EQ(outcome.code, 2);
    CHECK_EQ(outcome.out, "");
    CHECK(contains(outcome.err, error));
  };
  refused("--timeline a.txt", "--timeline: a.txt: expected a name that ends in .json or .svg");
  refused("--timeline absent/a.json", "absent/a.json");
  refused("--timeline a.json --profile", "--profile excludes --timeline");
}

TEST_CASE("threads keep to their device's processors, and a bench that cannot pin says so" *
          doctest::test_suite("host")) {
  if (processors() < 2) return;
  const TemporaryFolder folder;
  const auto used = [&](Words more) {
    const Measured run = measured(folder, "--model tiny" + more, "2");
    CHECK(contains(run.outcome.err, "round 1 of 1, row 1 of 1: "));
    CHECK_FALSE(contains(run.outcome.err, "nothing is pinned"));
    return run.row()["processors"].get<std::set<std::string>>();
  };
  for (const char* strategy : {"ddp", "dp"}) {
    CAPTURE(strategy);
    const auto sets = used(str("--strategy ", strategy, " --threads-per-device 1"));
    CHECK(sets.size() == 2);
    for (const std::string& one : sets) CHECK(one.find_first_of(",-") == std::string::npos);
  }
  const auto both = used("--strategy none --threads-per-device 2");
  CHECK(both.size() == 1);
  CHECK(both.begin()->find_first_of(",-") != std::string::npos);
  const Measured crowded =
      measured(folder, "--model tiny --strategy none --threads-per-device 500");
  CHECK(contains(crowded.outcome.err, "nothing is pinned"));
}

TEST_CASE("steps in a steady state map no memory and start no thread" *
          doctest::test_suite("host")) {
  // Large batches with different lengths, so that activations of other sizes reuse the memory of
  // earlier ones. The warm-up has the largest of them.
  const TemporaryFolder folder;
  const Measured run = measured(folder,
                                "--model tiny --strategy none,dp,ddp,zero1,zero2,fsdp --batch 96 "
                                "--warmup 8 --steps 4 --threads-per-device 1",
                                "2");
  for (const auto& row : run.json["rows"]) {
    CAPTURE(row["strategy"].get<std::string>());
    CHECK(row["peak_tensor_bytes"] > 2 << 25);  // of segments of 32 MiB
    CHECK_EQ(row["a_step"]["mapped_bytes"], 0);
    CHECK_EQ(row["a_step"]["threads_started"], 0);
    const bool whole = row["strategy"] == "none" || row["strategy"] == "ddp";
    REQUIRE_EQ(row.contains("memory_on_paper"), whole);
    if (!whole) continue;
    const double paper = row["memory_on_paper"]["total"].number(),
                 held = row["memory"]["held"].number();
    CHECK(held >= paper);
    CHECK(held <= 1.2 * paper);
  }
}

TEST_CASE("throughput takes the transformer from where modules.json says it is" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(ringlet::tests_file("oracles/bert"), model, fs::copy_options::recursive);
  fs::create_directory(model / "0_Transformer");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"})
    fs::rename(model / file, model / "0_Transformer" / file);
  ringlet::Json modules = ringlet::Json::parse(ringlet::read_file(model / "modules.json"));
  modules[0]["path"] = "0_Transformer";
  ringlet::write_file(model / "modules.json", modules.dump());
  const ringlet::Json row = measured(folder, str("--model ", model.string())).row();
  CHECK(row["sentences_per_s"].number() == doctest::Approx(2 * row["pairs_per_s"].get<double>()));
  std::vector<std::string> times;
  for (const auto& [name, ms] : row["step_ms"].items()) times.push_back(name);
  CHECK(times == std::vector<std::string>{"median", "min", "max", "data", "forward", "backward",
                                          "optimizer"});
}

TEST_CASE("throughput counts all texts of a triplet") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "triplets.tsv",
                      "anchor\tpositive\tnegative\na\tb\tc\nd\te\tf\ng\th\ti\nj\tk\tl\n");
  const ringlet::Json row =
      measured(folder, str("--model tiny --data ", (folder / "triplets.tsv").string())).row();
  CHECK(row["sentences_per_s"].number() == doctest::Approx(3 * row["pairs_per_s"].get<double>()));
}

TEST_CASE("logical ranks: every row has the steps of so many ranks, on its devices" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  std::string pairs = "anchor,positive\n";
  for (int row = 0; row < 60; ++row) pairs += "a dog runs,a dog\n";
  ringlet::write_file(folder / "pairs.csv", pairs);
  const std::string data = (folder / "pairs.csv").string();
  const Measured run = measured(folder, str("--model tiny --logical-ranks 3 --data ", data), "2");
  CHECK_EQ(run.json["logical_ranks"], 3);
  CHECK(contains(run.outcome.out, "batch 2 per each of 3 logical ranks"));
  Words rows;
  for (const auto& row : run.json["rows"]) {
    rows.push_back(row["strategy"].text());
    const double pairs_per_ms = row["pairs_per_s"].number() / 1e3;
    CHECK(pairs_per_ms * row["step_ms"]["median"].number() == doctest::Approx(3 * 2).epsilon(0.01));
  }
  CHECK_EQ(rows, Words{"none", "ddp", "zero1", "fsdp"});
  const auto refused = [](const Words& more, const std::string& line) {
    const Outcome outcome =
        run_program(RINGLET_THROUGHPUT, "--model tiny --devices 2 --logical-ranks" + more);
    CHECK_EQ(outcome.code, 2);
    CHECK_EQ(outcome.out, "");
    CHECK_EQ(outcome.err, "throughput: --logical-ranks " + line + "\n");
  };
  refused({"8"}, "8: expected --data, whose rows are dealt out");
  refused({"1", "--data", data}, "1: expected at least the 2 devices");
  refused({"8", "--data", data, "--strategy", "dp"}, "8: expected another row than dp");
}

TEST_CASE("the reference's recipe: what it trains, and what transformers' Trainer says it does" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  // Round robin ends with the shorter file: 4 of the 8 rows and all of the 4 are trained.
  std::string labels = "sentence1,sentence2,label\n", pairs = "anchor,positive\n";
  for (int row = 0; row < 8; ++row) labels += "a dog runs,a dog,1\n";
  for (const char* row : {"a,b c d e\n", "f g,h\n", "i,j\n", "k l,m n\n"}) pairs += row;
  ringlet::write_file(folder / "labels.csv", labels);
  ringlet::write_file(folder / "pairs.csv", pairs);
  const Measured run = measured(folder, str("--model tiny --recipe reference --dtype bf16 --data ",
                                            (folder / "labels.csv").string(), " --data ",
                                            (folder / "pairs.csv").string(), " --profile --wide"));
  CHECK_EQ(run.json["recipe"], "reference");
  CHECK_EQ(run.json["padded"], "yes");
  CHECK_EQ(run.json["forwards_per_step"], "one per column");
  CHECK_EQ(run.json["batch_per_device"], "2");
  CHECK_EQ(run.json["data"], str("12 rows of ", (folder / "labels.csv").string(), ", ",
                                 (folder / "pairs.csv").string()));
  CHECK_EQ(run.json["steps"], 2);
  CHECK_EQ(run.json["warmup"], 0);
  CHECK(run.json["cores"] >= 1);
  CHECK_EQ(run.json["date"].get<std::string>().size(), std::string("2000-01-01 00:00 UTC").size());
  CHECK(run.json["load"].is_number());
  const ringlet::Json& row = run.row();
  CHECK_EQ(row["strategy"], "none");
  CHECK_EQ(row["devices"], 1);
  CHECK_EQ(row["dtype"], "bf16");
  CHECK_EQ(row.contains("speedup"), row["steady"].get<bool>());
  CHECK(row["peak_memory_bytes"] > row["peak_tensor_bytes"]);
  CHECK(row["peak_tensor_bytes"] > 0);
  CHECK(row["hf_trainer_samples_per_s"].number() ==
        doctest::Approx(12.0 / 8 * row["pairs_per_s"].get<double>()));
  CHECK(row["padded_tokens_per_s"] > row["real_tokens_per_s"]);
  CHECK(row["kernels"].contains("attention"));
  for (const auto& [kernel, sum] : row["kernels"].items()) {
    CHECK(sum["calls"] > 0);
    CHECK(sum["ms"] > 0);
  }
  CHECK(contains(run.outcome.out, "| strategy | devices | dtype | pairs/s | speed-up |"));
  CHECK(contains(run.outcome.out, "| none     | 1       | bf16  | "));
  CHECK(contains(run.outcome.out, "HF Trainer samples/s*"));
}

TEST_CASE("padding alone: one forward for all columns, and tokens of which some are not real") {
  const TemporaryFolder folder;
  const Measured packed = measured(folder, "--model tiny");
  CHECK_EQ(packed.json["padded"], "no");
  CHECK_EQ(packed.row()["hf_trainer_samples_per_s"], packed.row()["pairs_per_s"]);
  CHECK_EQ(packed.row()["dtype"], "f32");
  CHECK_FALSE(packed.row().contains("kernels"));
  const Measured padded = measured(folder, "--model tiny --padded");
  CHECK_EQ(padded.json["padded"], "yes");
  CHECK_EQ(padded.json["forwards_per_step"], "one");
  CHECK(padded.row()["padded_tokens_per_s"] > padded.row()["real_tokens_per_s"]);
  CHECK(padded.row()["tokens_per_pair"] == packed.row()["tokens_per_pair"]);
}

TEST_CASE("a wrong option of the bench is one line, and nothing is measured") {
  const TemporaryFolder folder;
  const auto refused = [](const Words& command, const std::string& line) {
    const Outcome outcome = run_program(RINGLET_THROUGHPUT, command);
    CHECK_EQ(outcome.code, 2);
    CHECK_EQ(outcome.out, "");
    CHECK_EQ(outcome.err, "throughput: " + line + "\n");
  };
  refused("--modle tiny", "unknown option '--modle'; did you mean --model?");
  refused({"--colour"}, "unknown option '--colour'; throughput --help lists what there is");
  refused({"tiny"}, "unknown argument 'tiny'; throughput --help lists what there is");
  refused("--steps 0", "--steps: expected a whole number from 1 to 1048576, found '0'");
  refused("--model medium",
          "--model: unknown model 'medium'; expected mpnet-base, bert-base, minilm-l6, tiny, a "
          "folder or "
          "a model in Hugging Face's cache");
  refused("--model tiny --device tpu",
          "--device: unknown device 'tpu'; expected cpu, cuda, cpu:N or cuda:N");
  refused("--transport pigeon",
          "--transport: unknown transport 'pigeon'; expected auto, thread, shm, gloo or nccl");
  refused("--strategy pipe,,none", "--strategy: expected no empty value, found 'pipe,,none'");
  // Ranks find these.
  for (const auto& [strategy, line] :
       {std::pair("pipe", "mesh pipe: expected at least one layer in each of 3 stages, "),
        std::pair("tensor",
                  "[tensor] encoder.layer.0 has 4 heads: expected one of 1, 2, 4 ranks, ")}) {
    const Outcome outcome =
        run_program(RINGLET_THROUGHPUT, str("--model tiny --devices 3 --strategy ", strategy));
    CHECK_EQ(outcome.code, 2);
    CHECK(contains(outcome.err, str(": --strategy ", strategy, ": ", line)));
  }
  const std::string absent = (folder / "absent.csv").string();
  for (const char* option : {"--data ", "--histogram "})
    refused(str("--model tiny ", option, absent),
            absent + ": cannot open: No such file or directory");
}

TEST_CASE("a table that could not be printed is no success") {
  for (const Words& command :
       {Words("--model tiny --batch 1 --devices 1 --rounds 1 --warmup 0 --steps 1 --idle-steps 0"),
        Words("--help")}) {
    const Outcome outcome = run_program(RINGLET_THROUGHPUT, command, {.output_to = "/dev/full"});
    CHECK_EQ(outcome.code, 2);
    CHECK(outcome.err.ends_with("throughput: standard output: cannot write\n"));
  }
}

TEST_CASE("throughput refuses what memory cannot hold, with the bytes it would need" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  // A thousand layers of 12 x 2^30 weights, embeddings of 2^30: more than any machine has.
  ringlet::write_file(folder / "config.json", R"({"model_type": "bert", "vocab_size": 32256,
    "hidden_size": 32768, "num_hidden_layers": 1000, "num_attention_heads": 64,
    "intermediate_size": 131072, "max_position_embeddings": 512, "pad_token_id": 0,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02, "hidden_act": "gelu"})");
  const double embeddings = 0x1p30, layer = 12 * embeddings, all = embeddings + 1000 * layer;
  const std::vector<std::pair<const char*, double>> needed{{"none", 16 * all},  {"dp", 24 * all},
                                                           {"ddp", 32 * all},   {"zero1", 24 * all},
                                                           {"zero2", 20 * all}, {"fsdp", 16 * all}};
  for (const auto& row : needed) {  // clang 14 captures no structured binding
    const char* const strategy = row.first;
    const double bytes = row.second;
    CAPTURE(strategy);
    const Outcome outcome =
        run_program(RINGLET_THROUGHPUT, {"--model", folder.path().string(), "--devices", "2",
                                         "--strategy", strategy, "--steps", "1"});
    CHECK(outcome.code == 2);
    const std::string expected =
        str("throughput: --strategy ", strategy, ": weights, gradients and optimizer ");
    CHECK(outcome.err.starts_with(expected));
    // In GB, with one decimal.
    CHECK(contains(outcome.err, fmt::format(" need {:.1f} GB,", bytes / 1e9)));
  }
}

TEST_CASE("throughput says how long DP adds up, and leaves out the wire it has not" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const ringlet::Json row =
      measured(folder, "--model tiny --strategy dp --threads-per-device 1", "2").row();
  CHECK(row["exposed_ms"] > 0);
  CHECK_FALSE(row.contains("wire_bytes"));
  const TemporaryFolder other;
  const ringlet::Json ddp =
      measured(other, "--model tiny --strategy ddp --threads-per-device 1", "2").row();
  CHECK(ddp["wire_bytes"] > 0);
}

TEST_CASE("the report has what bench/predicted.py takes, where there is something to predict" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  Measured run =
      measured(folder, "--model tiny --strategy none,unconnected,ddp --threads-per-device 1", "2");
  CHECK_EQ(run.json["link"]["all_reduce"].size(), 3);
  CHECK_EQ(run.json["link"]["ranks"], 2);
  CHECK_EQ(run.json["encoder"]["hidden"], 128);
  CHECK(run.json["rows"][1].contains("spread"));
  for (auto& row : run.json["rows"]) row["steady"] = true;  // a busy machine's steps may vary
  ringlet::write_file(folder / "rows.json", run.json.dump());
  const std::string command = str("python3 ", RINGLET_PREDICTED, " ",
                                  (folder / "rows.json").string(), " | grep -q '| ddp | 2 | '");
  CHECK_EQ(std::system(command.c_str()), 0);
  for (const char* strategy : {"none", "ddp"})
    CHECK_FALSE(
        measured(folder, str("--model tiny --strategy ", strategy), "2").json.contains("link"));
}

TEST_CASE("throughput measures the device that it is told, or where the tests are run") {
  const TemporaryFolder folder;
  const auto rows_of = [](const ringlet::Json& json) {
    CHECK_EQ(json["rows"].size(), 3);
    for (const auto& row : json["rows"]) CHECK(row["pairs_per_s"] > 0);
    return json["rows"];
  };
  const ringlet::Json plain = measured(folder, "--model tiny --strategy none,dp,ddp", "2").json;
  CHECK_EQ(plain["device"], str(ringlet::default_device()));
  const bool on_cpu = ringlet::default_device().type == ringlet::DeviceType::cpu;
  CHECK_EQ(plain["ranks"], on_cpu ? "processes" : "threads");
  rows_of(plain);
  const ringlet::Json told =
      measured(folder,
               "--model tiny --strategy none,dp,ddp --device cpu:1 --profile --transport shm", "2")
          .json;
  CHECK_EQ(told["device"], "cpu:1");
  CHECK_EQ(told["transport"], "shm");
  CHECK_EQ(told["algorithm"], "auto");
  const auto info = ringlet::Json::parse(::run("info --json").out);
  CHECK_EQ(told["commit"], info["commit"].get<std::string>());
  CHECK_NE(info["commit"], "");
  for (const auto& row : rows_of(told)) {
    CHECK(row["peak_tensor_bytes"] > 0);
    CHECK(row["kernels"].contains("attention"));
  }
}
