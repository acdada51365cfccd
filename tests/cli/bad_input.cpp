// Errors are one line that names the cause; the exit code is 2 and nothing is written.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ringlet/core/io/json.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/tests/cli/program.h"

namespace fs = std::filesystem;
using ringlet::read_file;
using ringlet::write_file;

namespace {

/// A model folder of the tiny configuration, created once.
const fs::path& tiny_model() {
  static const TemporaryFolder folder;
  static const fs::path model = [] {
    const Outcome made = run(str("train --model tiny --max-steps 1 --eval-strategy no ",
                                 "--no-progress --output ", (folder / "out").string()));
    REQUIRE_EQ(made.code, 0);
    return folder / "out/model";
  }();
  return model;
}

struct Fixture {
  TemporaryFolder folder;
  std::string model = (folder / "model").string();
  std::string text = (folder / "text.txt").string();
  std::string output = (folder / "out").string();

  Fixture() {
    fs::copy(tiny_model(), model, fs::copy_options::recursive);
    write_file(text, "A dog runs.\n");
  }

  Outcome encode(const Words& more = {}) const {
    return run(str("encode ", text, " --model ", model, " --output ", output, ".npy") + more);
  }
  Outcome train(const std::string& data, Words more = {}) const {
    write_file(folder / "data.csv", data);
    return run(
        str("train --model tiny --data ", (folder / "data.csv").string(), " --output ", output) +
        more);
  }
  /// Exit code 2, one line with all the words, and no output.
  void refuse(const Outcome& outcome, const std::vector<std::string>& words) const {
    INFO(outcome.err);
    CHECK_EQ(outcome.code, 2);
    CHECK_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
    for (const std::string& word : words) CHECK(contains(outcome.err, word));
    CHECK_FALSE(fs::exists(output));
    CHECK_FALSE(fs::exists(output + ".npy"));
    for (const auto& entry : fs::directory_iterator(folder.path()))
      CHECK_FALSE(contains(entry.path().string(), ".tmp"));
  }
  /// Replaces one tensor of the model's weights.
  void replace_weight(const std::string& name, const ringlet::Tensor& by) const {
    const fs::path path = fs::path(model) / "model.safetensors";
    ringlet::NamedTensors tensors;
    const auto file = ringlet::SafeTensors::open(path);
    for (const std::string& each : file.names())
      tensors.emplace_back(each, each == name ? by : file.load(each).clone());
    ringlet::save_safetensors(path, tensors);
  }
};

constexpr const char* kPairs = "sentence1,sentence2,label\n";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "weights that are cut off, and a checkpoint that was changed") {
  const fs::path weights = fs::path(model) / "model.safetensors";
  const std::string good = read_file(weights);
  write_file(weights, good.substr(0, good.size() - 100));
  refuse(encode(), {"model.safetensors"});

  const Words steps = str("train --model tiny --batch 8 --max-steps 4 --save-steps 2 ",
                          "--eval-strategy no --no-progress --output ", output);
  REQUIRE_EQ(run(steps).code, 0);
  const std::string state = output + "/checkpoint-4/trainer_state.json";
  write_file(state, read_file(state) + ' ');
  const Outcome resumed = run(steps + "--resume");
  CHECK_EQ(resumed.code, 2);
  CHECK(resumed.err.starts_with("ringlet: " + state + ": damaged, or of another checkpoint"));
  CHECK_EQ(count(resumed.err, "\n"), 1);
}

TEST_CASE_FIXTURE(Fixture, "octal numbers, empty values and brackets are no option's values") {
  const std::string pair = "sentence1,sentence2\nA dog.,A cat.\nA cow.,A pig.\n";
  refuse(train(pair, str("--batch 010")),
         {"--batch: expected a whole number from 1 to ", ", found '010'"});
  refuse(train(pair, str("--matryoshka-dims 32,016")), {"--matryoshka-dims: ", ", found '016'"});
  refuse(train(pair, str("--matryoshka-dims [32,16]")), {"--matryoshka-dims: ", ", found '[32'"});
  refuse(train(pair, str("--prompt= --bf16")), {"--prompt=: expected a value after the ="});
  refuse(train(pair, str("--prompt [a=b] --loss mnrl --batch 2")),
         {"no data set has a column '[a'"});
}

TEST_CASE_FIXTURE(Fixture, "a missing file or folder") {
  fs::remove(text);
  refuse(encode(), {text, "No such file"});
  write_file(text, "x\n");
  fs::remove_all(model);
  refuse(encode(), {model});
  refuse(run(str("train --model tiny --data absent.csv --output ", output)),
         {"absent.csv", "No such file"});
  refuse(run(str("train --model absent --output ", output)), {"absent", "tiny"});
}

TEST_CASE_FIXTURE(Fixture, "a folder without a model that hides a built-in one") {
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  fs::create_directory("tiny");
  const Outcome outcome = run(str("train --model tiny --output ", output));
  fs::current_path(before);
  refuse(outcome, {"ringlet: --model: tiny: is a built-in model, but a folder of that name"});
}

TEST_CASE_FIXTURE(Fixture, "a weight of the wrong shape or dtype, by name") {
  const std::string name = "encoder.layer.1.output.dense.weight";
  replace_weight(name, ringlet::zeros({3, 5}));
  refuse(encode(), {name, "(3, 5)"});
  replace_weight(name, ringlet::zeros({128, 512}, ringlet::DType::i32));
  refuse(encode(), {name, "i32"});
}

TEST_CASE_FIXTURE(Fixture,
                  "names and cells that are long or of several lines are shown in one short one") {
  const std::string line = "two\nlines\x1b[2J", shown = "two?lines?[2J", many(5000, 'x');
  const auto short_refusal = [&](const Outcome& outcome, const std::string& word) {
    refuse(outcome, {word});
    CHECK(outcome.err.size() < 600);
  };
  const fs::path weights = fs::path(model) / "model.safetensors";
  const auto with_header = [&](const std::string& name) {
    const std::string header =
        ringlet::Json{{name, {{"dtype", many}, {"shape", {1}}, {"data_offsets", {4, 8}}}}}.dump();
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i)
      length[i] = static_cast<char>(header.size() >> 8 * i & 0xFF);
    write_file(weights, length + header + std::string(8, '\0'));
    return encode();
  };
  short_refusal(with_header(line), shown);
  short_refusal(with_header(many), "xxx...'");
  const std::string good = read_file(fs::path(model) / "config.json");
  const auto with_type = [&](const std::string& type) {
    auto config = ringlet::Json::parse(good);
    config["model_type"] = type;
    write_file(fs::path(model) / "config.json", config.dump());
    return encode();
  };
  short_refusal(with_type(line), shown);
  short_refusal(with_type(many), "xxx...'");
  const auto with_label = [&](const std::string& label) {
    return train(std::string(kPairs) + "a,b,0\nc,d,\"" + label + "\"\n");
  };
  short_refusal(with_label(line), shown);
  short_refusal(with_label(many), "xxx...'");
  short_refusal(with_label("1" + std::string(4000, '0')), "data.csv:3");
  short_refusal(train("sentence1," + many + "\na,b\n", str("--columns ", many + "=text")),
                "data.csv");
}

TEST_CASE_FIXTURE(Fixture, "a vocabulary of the wrong size") {
  const fs::path config = fs::path(model) / "config.json";
  std::string text_of = read_file(config);
  const std::size_t at = text_of.find("\"vocab_size\": ") + 14;
  text_of.replace(at, text_of.find_first_of(",\n}", at) - at, "17");
  write_file(config, text_of);
  refuse(encode(), {"vocab", "17"});
}

TEST_CASE_FIXTURE(Fixture, "a malformed line, with its number") {
  write_file(text, "fine\nnot \xff text\n");
  refuse(encode(), {text + ":2", "UTF-8"});
  refuse(train(std::string(kPairs) + "a,b,0\nc,d,\"1\n"), {"data.csv:3"});
  refuse(train(std::string(kPairs) + "a,b,0\nc,d,high\n"), {"data.csv:3", "high"});
}

TEST_CASE_FIXTURE(Fixture, "a label out of range") {
  const std::string data = std::string(kPairs) + "a,b,0\nc,d,7\n";
  refuse(train(data, "--num-labels 3"), {"data.csv:3", "7"});
  refuse(train(std::string(kPairs) + "a,b,0\nc,d,-3\n"), {"data.csv:3", "-3"});
}

TEST_CASE_FIXTURE(Fixture, "no rows, and a batch larger than the data") {
  refuse(train(""), {"data.csv"});
  refuse(train(kPairs), {"data.csv"});
  const std::string two_rows = std::string(kPairs) + "a,b,0\nc,d,1\n", file = "/data.csv: ";
  refuse(train(two_rows, "--batch 3"), {file + "--batch 3 is more than its 2 rows"});
  refuse(train(two_rows, "--batch 2 --strategy ddp --devices 2"),
         {file + "--batch 2 on each of 2 devices is more than its 2 rows"});
  write_file(text, "");
  refuse(encode(), {text, "expected a line of text"});
}

TEST_CASE_FIXTURE(Fixture, "options that do not fit") {
  refuse(run(str("encode ", text, " --model ", model, " --output ", output)),
         {"--output", ".npy or .jsonl"});
  refuse(run(str("encode ", text, " --modle ", model, " --output ", output, ".npy")),
         {"'--modle'", "--model"});
  refuse(encode("--max-length 9999"), {"--max-length 9999", "128"});
  refuse(encode("--device tpu"), {"tpu"});
  refuse(train(std::string(kPairs) + "a,b,0\nc,d,1\n", {"--resume"}),
         {"--resume", "no checkpoint"});
  refuse(run(str("train --model ", model, " --vocab v.txt --output ", output)),
         {"--vocab", "its own vocabulary"});
}

TEST_CASE_FIXTURE(Fixture, "a GPU that is not there" * doctest::test_suite("host")) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // hides GPUs if there are any
  refuse(encode("--device cuda"), {"--device cuda", "no CUDA device"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_CASE_FIXTURE(Fixture, "an output that cannot be written") {
  const Outcome absent = run(str("encode ", text, " --model ", model, " --output /absent/e.npy"));
  refuse(absent, {"--output /absent/e.npy", "no folder"});
  const std::string longest(300, 'a');  // bytes; file systems allow 255
  refuse(run(str("encode ", text, " --model ", model, " --output ", longest, "/e.npy")),
         {"--output " + longest, "cannot write: File name too long"});
  refuse(run("train --model tiny --output " + longest), {"cannot write: File name too long"});
  refuse(run(str("train --model tiny --output ", text + "/out")),
         {"--output", text + " is no folder"});
  refuse(run(str("train --model tiny --output ", model)), {"--output " + model, "not empty"});
}

TEST_CASE_FIXTURE(Fixture, "a full disk leaves no half-written file of embeddings") {
  std::string long_lines;
  for (int line = 0; line < 45; ++line) long_lines += std::string(1'000'000, 'a') + '\n';
  write_file(text, long_lines);
  refuse(run(str("encode ", text, " --model ", model, " --output ", output + ".jsonl"),
             {.file_size = 40 << 20}),
         {"out.jsonl", "File too large"});
  CHECK_FALSE(fs::exists(output + ".jsonl"));
}

TEST_CASE_FIXTURE(Fixture, "a full disk leaves no half-written model") {
  // A separate disk of 200 kB for the program; the files left on it are listed at the end.
  fs::create_directory(folder / "disk");
  const std::string disk = (folder / "disk").string();
  const std::string mount = "mount -t tmpfs -o size=200k none " + disk;
  const char* unshare = ::geteuid() == 0 ? "-m" : "-Urm";
  if (run_program("unshare", {unshare, "sh", "-c", mount}).code != 0) {
    MESSAGE("skipped: needs the right to mount a file system");
    return;
  }
  const std::string train =
      ringlet_program() +
      " train --model tiny --max-steps 10 --eval-strategy no --no-progress --output " + disk +
      "/out";
  const Outcome outcome = run_program(
      "unshare", {unshare, "sh", "-c",
                  mount + " && { " + train + "; code=$?; find " + disk + "; exit $code; }"});
  CHECK_EQ(outcome.code, 2);
  CHECK(contains(outcome.err, "No space left on device"));
  CHECK(contains(outcome.out, "metrics.jsonl"));  // it did reach saving
  CHECK_FALSE(contains(outcome.out, "model"));
  CHECK_FALSE(contains(outcome.out, ".tmp"));
}

TEST_CASE_FIXTURE(Fixture, "more than the memory limit, or a limit that is no size") {
  const std::string data = std::string(kPairs) + "a,b,0\nc,d,1\n";
  const ringlet::Device device = ringlet::default_device();
  const std::string bytes = str(" is ", 4 << 20);
  const std::string limit = str("the memory limit of ", device, bytes);
  // Either rank may report it first, on separate GPUs.
  const std::string any_limit = device.type == ringlet::DeviceType::cpu ? limit : bytes;
  refuse(train(data, "--batch 1 --memory-limit 4MiB"), {"[none]", "parameters need", limit});
  refuse(train(data, "--batch 1 --memory-limit 4MiB --strategy ddp --devices 2"),
         {"[ddp]", "bytes on each rank", any_limit});
  // Less than the random weights alone, under each strategy.
  for (const char* strategy : {"none", "fsdp"})
    refuse(train(data, str("--batch 1 --memory-limit 64KiB --strategy ", strategy, " --devices 1")),
           {"--memory-limit: the random weights of tiny need ", " bytes",
            "found " + std::to_string(64 << 10)});
  // A decimal unit would be taken for the binary one.
  for (const char* wrong : {"4 parsecs", "1MB", "1gb", "1iB", "1Kb"})
    refuse(train(data, {"--memory-limit", wrong}),
           {"--memory-limit: expected bytes, perhaps in KiB, MiB or GiB, found ", wrong});
  for (const char* right : {"64K", "64 kib", "65536", "65536B", "0.0625m"})
    refuse(train(data, {"--batch", "1", "--memory-limit", right}), {"found 65536"});
}

TEST_CASE_FIXTURE(Fixture, "a trained model is not trained further on generated sentences") {
  refuse(run(str("train --model ", model, " --output ", output)),
         {"ringlet: --model " + model + ": ", "needs --data"});
}

TEST_CASE_FIXTURE(Fixture, "--resume with other options names each, its value then and now") {
  const std::string run_folder = (folder / "run").string();
  write_file(folder / "data.csv", std::string(kPairs) + "a,b,0\nc,d,1\ne,f,0\ng,h,1\n");
  write_file(folder / "more.csv", std::string(kPairs) + "a,b,0\nc,d,1\n");
  const auto train = [&](const std::string& data, Words more) {
    return run(str("train --model tiny --data ", (folder / data).string(),
                   " --max-steps 2 --save-steps 1 --no-progress --output ", run_folder) +
               more);
  };
  REQUIRE_EQ(train("data.csv", "--batch 2").code, 0);
  const std::string line = run_folder + "/checkpoint-2: was trained with ";
  check_refused(train("data.csv:contrastive", "--batch 2 --margin 0.2 --resume"),
                line + "--loss SoftmaxLoss, now ContrastiveLoss, margin 0.2, distance cosine");
  check_refused(train("data.csv", "--batch 1 --lr 0.5 --resume"),
                line +
                    "--lr 0.001, now 0.5; rows of a step (--batch, --devices, "
                    "--gradient-accumulation-steps) 2, now 1");
  refuse(train("more.csv", "--batch 2 --resume"),
         {line + "--data 4 rows, SHA-256 ", ", now 2 rows, SHA-256 ", "; tokenizer (--model, "});
  check_refused(train("data.csv", "--batch 2 --max-length 16 --matmul-precision high --resume"),
                line + "--matmul-precision highest, now high; --max-length 128, now 16");
}
