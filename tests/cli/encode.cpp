// `ringlet encode` on the small published-style models of tests/oracles.
#include <filesystem>
#include <limits>
#include <sstream>

#include "ringlet/core/io/json.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/npy.h"

namespace fs = std::filesystem;

namespace {

std::string oracle(const char* name) { return ringlet::tests_file(str("oracles/", name)); }

constexpr const char* kTexts = "A dog \"runs\".\n\nZwei Hunde, \xc3\xa4hnlich.\n";

}  // namespace

TEST_CASE("JSON lines hold each text and the numbers of the .npy file") {
  const TemporaryFolder folder;
  const auto encode = [&](const char* output, Words more = {}) {
    return run(
        str("encode - --model ", oracle("mpnet"), " --output ", (folder / output).string()) + more,
        {.input = kTexts});
  };
  REQUIRE_EQ(encode("e.npy").code, 0);
  const Outcome outcome = encode("e.jsonl");
  REQUIRE_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  CHECK_EQ(outcome.out.find("wrote 3 embeddings of 32 numbers to "), 0);
  const ringlet::Tensor expected = read_npy(folder / "e.npy");  // (3, 32)
  std::istringstream lines(ringlet::read_file(folder / "e.jsonl"));
  std::vector<std::string> texts;
  for (std::string line; std::getline(lines, line);) {
    const auto json = ringlet::Json::parse(line);
    CHECK_EQ(json.size(), 2);
    CHECK(json["embedding"].get<std::vector<float>>() ==
          expected[static_cast<std::int64_t>(texts.size())].to_vector());
    texts.push_back(json["text"].text());
  }
  CHECK(texts == std::vector<std::string>{"A dog \"runs\".", "", "Zwei Hunde, \xc3\xa4hnlich."});

  // The bits do not depend on the number of threads. With few tokens at a time a GPU's products may
  // add in another order.
  REQUIRE_EQ(encode("more.jsonl", "--threads-per-device 3 --batch-tokens 1").code, 0);
  if (ringlet::default_device().type == ringlet::DeviceType::cpu)
    CHECK(ringlet::read_file(folder / "more.jsonl") == ringlet::read_file(folder / "e.jsonl"));

  const auto summary = ringlet::Json::parse(encode("e.npy", {"--json"}).out);
  CHECK_EQ(summary["texts"], 3);
  CHECK_EQ(summary["dimension"], 32);
  const double seconds = summary["seconds"].number(),
               tokenizing_s = summary["tokenizing_s"].number();
  CHECK(tokenizing_s > 0);
  CHECK(tokenizing_s < seconds);
  CHECK_EQ(summary["texts_per_s"].number(), doctest::Approx(3 / seconds));
  check_refused(encode("x.npy", "--threads-per-device 0"),
                "--threads-per-device: expected a whole number from 1 to 4096, found '0'");
}

TEST_CASE("an encoding that is interrupted or killed leaves nothing") {
  if (!has_unnamed_files()) return;
  const TemporaryFolder inputs, folder;
  const std::string texts = (inputs / "texts.txt").string();
  std::string lines;
  for (int i = 0; i < 200'000; ++i) {  // different ones, in digits that the vocabulary has
    for (int digits = i, n = 0; n < 9; ++n, digits /= 4) lines += str(digits % 4, ' ');
    lines += '\n';
  }
  ringlet::write_file(texts, lines);
  for (const char* name : {"e.npy", "e.jsonl"})
    for (const int number : {SIGINT, SIGTERM, SIGKILL}) {
      CAPTURE(number);
      Background encoding(Words{ringlet_program()} + str("encode ", texts, " --model ",
                                                         oracle("mpnet"), " --output ",
                                                         (folder / name).string()));
      const auto writes = [&] {
        std::error_code ignored;
        for (fs::directory_iterator at(str("/proc/", encoding.pid(), "/fd"), ignored), end;
             !ignored && at != end; at.increment(ignored))
          if (fs::read_symlink(at->path(), ignored).string().starts_with(folder.path().string()))
            if (const auto size = fs::file_size(at->path(), ignored); !ignored && size > 0)
              return true;
        return false;
      };
      REQUIRE(Background::until(writes));
      encoding.signal(number);
      CHECK_EQ(encoding.wait(), 1000 + number);
      CHECK_EQ(folder.entries(), 0);
    }
}

TEST_CASE("--truncate-dim keeps leading numbers, also more than the folder's truncate_dim") {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(oracle("mpnet"), model, fs::copy_options::recursive);
  const auto encode = [&](const Words& more) {
    const Words command =
        str("encode - --model ", model.string(), " --output ", (folder / "e.npy").string());
    const Outcome outcome = run(command + more, {.input = kTexts});
    REQUIRE_EQ(outcome.code, 0);
    return read_npy(folder / "e.npy");
  };
  const ringlet::Tensor whole = encode({});  // (3, 32)
  ringlet::write_file(model / "config_sentence_transformers.json", R"({"truncate_dim": 5})");
  CHECK_EQ(encode({}).size(1), 5);
  for (const std::int64_t columns : {1, 7, 32}) {
    const ringlet::Tensor cut = encode(str("--truncate-dim ", columns));
    REQUIRE(cut.shape() == ringlet::Shape{3, columns});
    for (std::int64_t i = 0; i < 3; ++i)
      CHECK(cut[i].to_vector() == whole[i].slice(0, columns).to_vector());
  }
  const auto refused = [&](const char* columns, const std::string& line) {
    check_refused(run(str("encode - --model ", model.string(), " --output ",
                          (folder / "x.npy").string(), " --truncate-dim ", columns),
                      {.input = kTexts}),
                  line);
  };
  refused("33", "--truncate-dim 33: the model's embeddings have 32 numbers");
  refused("0", "--truncate-dim: expected a whole number from 1 to 16777216, found '0'");
  CHECK_FALSE(fs::exists(folder / "x.npy"));
}

TEST_CASE("weights without use are named in one line, a key without effect in another") {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(oracle("bert"), model, fs::copy_options::recursive);
  const auto errors = [&] {
    const Outcome outcome =
        run(str("encode - --model ", model.string(), " --output ", (folder / "e.npy").string()),
            {.input = kTexts});
    CHECK_EQ(outcome.code, 0);
    return outcome.err;
  };
  const std::string line = model.string() + ": weights without use:";
  const std::string pooler = " pooler.dense.bias pooler.dense.weight\n";
  CHECK_EQ(errors(), line + pooler);

  ringlet::NamedTensors tensors{{"cls.predictions.bias", ringlet::ones({320})}};
  {
    const auto file = ringlet::SafeTensors::open(model / "model.safetensors");
    for (const std::string& name : file.names())
      tensors.emplace_back(name, file.load(name).clone());
  }
  ringlet::save_safetensors(model / "model.safetensors", tensors);
  CHECK_EQ(errors(), line + " cls.predictions.bias" + pooler);

  const std::string config = (model / "config.json").string();
  ringlet::Json json = ringlet::Json::parse(ringlet::read_file(config));
  json["rope_theta"] = 10000;
  ringlet::write_file(config, json.dump());
  CHECK_EQ(errors(), config + ": 'rope_theta': the key has no effect here\n" + line +
                         " cls.predictions.bias" + pooler);
}

TEST_CASE("the default prompt of a folder goes before each line") {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(oracle("mpnet"), model, fs::copy_options::recursive);
  const fs::path output = folder / "e.npy";
  Words command = str("encode - --model ", model.string(), " --output ", output.string());
  const auto set_prompts = [&](const char* json) {
    ringlet::write_file(model / "config_sentence_transformers.json", json);
  };
  const auto encode = [&](const std::string& texts) {
    REQUIRE_EQ(run(command, {.input = texts}).code, 0);
    return read_npy(output).to_vector();
  };
  const auto expected = encode("query: a dog\nquery: two cats\n");
  set_prompts(
      R"({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"})");
  CHECK(encode("a dog\ntwo cats\n") == expected);
  set_prompts(R"({"prompts": {}})");
  const auto apart = encode("a dog \n");
  set_prompts(R"({"prompts": {"query": "a"}, "default_prompt_name": "query"})");
  CHECK(encode(" dog \n") == apart);  // the prompt and the line as it is, in Python too

  set_prompts(R"({"prompts": {"query": "query: ", "document": "d: "},
                          "default_prompt_name": "document"})");
  command = command + "--prompt-name query";
  CHECK(encode("a dog\ntwo cats\n") == expected);
  command.back() = "title";
  check_refused(run(command, {.input = "a dog\n"}),
                "prompt name 'title': expected one of 'document', 'query'");
  const Words named = command;
  command = Words(named.begin(), named.end() - 2) + Words{"--prompt", "query: "};
  CHECK(encode("a dog\ntwo cats\n") == expected);
  check_refused(run(named + Words{"--prompt", "query: "}), "--prompt-name excludes --prompt");
  command = named;
  set_prompts(R"({"prompts": {"query": "q"}})");
  ringlet::write_file(model / "1_Pooling/config.json",
                      R"({"pooling_mode": "mean", "include_prompt": false})");
  command.back() = "query";
  check_refused(run(command, {.input = "a dog\n"}),
                "prompt 'query': the pooling's include_prompt: false is not supported with a "
                "prompt");
  set_prompts("{}");
  check_refused(run(command, {.input = "a dog\n"}),
                "prompt name 'query': expected none: the folder has no prompts");
}

TEST_CASE("a table is read by its columns, and its rows keep their places and ids") {
  const TemporaryFolder folder;
  const auto encode = [&](const std::string& input, const char* output) {
    return run(str("encode ", input, " --model ", oracle("mpnet"), " --output ",
                   (folder / output).string()),
               {.input = "{\"text\": \"a dog\"}\n"});
  };
  const auto written = [&](const char* name, const std::string& text) {
    ringlet::write_file(folder / name, text);
    return (folder / name).string();
  };
  REQUIRE_EQ(encode(written("lines.txt", "a dog\n\nIt, rains.\n"), "lines.npy").code, 0);
  for (const auto& [name, text] : std::vector<std::pair<const char*, std::string>>{
           {"t.csv", "label,text\n1,a dog\n0,\n2,\"It, rains.\"\n"},
           {"t.tsv", "id\ttext\nx\ta dog\ny\t\nz\tIt, rains.\n"},
           {"t.jsonl",
            "{\"_id\": \"x\", \"text\": \"a dog\"}\n{\"_id\": \"y\", \"text\": \"\"}\n"
            "{\"_id\": \"z\", \"text\": \"It, rains.\"}\n"}}) {
    const char* const table = name;
    CAPTURE(table);
    REQUIRE_EQ(encode(written(name, text), "table.npy").code, 0);
    CHECK(ringlet::read_file(folder / "table.npy") == ringlet::read_file(folder / "lines.npy"));
  }
  REQUIRE_EQ(encode((folder / "t.tsv").string(), "table.jsonl").code, 0);
  std::istringstream rows(ringlet::read_file(folder / "table.jsonl"));
  std::string row;
  std::getline(rows, row);
  CHECK_EQ(ringlet::Json::parse(row)["id"], "x");
  CHECK_EQ(ringlet::Json::parse(row)["text"], "a dog");

  const std::string pairs = written("pairs.csv", "sentence1,sentence2\na,b\n");
  check_refused(encode(pairs, "x.npy"),
                pairs + ":1: expected a column text, found sentence1, sentence2");
  const std::string json = ": expected lines of text, found JSON; its name ends in .jsonl";
  const std::string other = written("t.json", "{\"text\": \"a dog\"}\n");
  check_refused(encode(other, "x.npy"), other + json);
  check_refused(encode("-", "x.npy"), "standard input" + json);
  for (const char* array : {"[\"a dog\"]\n", "[\n\"a dog\"\n]\n", "[{\"text\": \"a\"},\n{}]\n"})
    check_refused(encode(written("t.json", array), "x.npy"), other + json);
  CHECK_FALSE(fs::exists(folder / "x.npy"));
}

TEST_CASE("encode keeps its input, by whatever name it is the output") {
  const TemporaryFolder folder;
  const fs::path input = folder / "in.jsonl";
  const std::string text = "{\"text\": \"a dog\"}\n";
  ringlet::write_file(input, text);
  fs::create_symlink("in.jsonl", folder / "link.jsonl");
  fs::create_hard_link(input, folder / "other.jsonl");
  for (const char* name : {"in.jsonl", "link.jsonl", "other.jsonl"}) {
    const std::string output = (folder / name).string();
    const Words encode = str(" --model ", oracle("mpnet"), " --output ", output);
    const std::string line = "--output " + output + ": INPUT reads this file";
    check_refused(Words{"encode", input.string()} + encode, line);
    check_refused(run_program("sh", Words{"-c", "exec \"$0\" \"$@\" < " + input.string(),
                                          ringlet_program(), "encode", "-"} +
                                        encode),
                  line);
    CHECK_EQ(ringlet::read_file(input), text);
  }
}

TEST_CASE("a model that gives no finite embedding is refused, with the text") {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(oracle("mpnet"), model, fs::copy_options::recursive);
  ringlet::NamedTensors tensors;
  {
    const auto file = ringlet::SafeTensors::open(model / "model.safetensors");
    for (const std::string& name : file.names())
      tensors.emplace_back(name, file.load(name).clone());
  }
  tensors.front().second.fill_(std::numeric_limits<double>::quiet_NaN());
  ringlet::save_safetensors(model / "model.safetensors", tensors);
  const std::string line = "the embedding of 'a dog' is not finite", output = folder / "e.npy";
  const Words encode = str("encode - --model ", model.string(), " --output ", output);
  check_refused(run(encode, {.input = "a dog\n"}), line);
  CHECK_FALSE(fs::exists(output));
  ringlet::write_file(folder / "pairs.csv", "a dog,a dog,5\na dog,a cat,1\n");
  check_refused(
      str("evaluate --model ", model.string(), " --data ", (folder / "pairs.csv").string()), line);
}

TEST_CASE("the folder of a run is not the model in it, and the refusal names that one") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  const fs::path out = folder / "out", model = out / "model";
  fs::copy(oracle("mpnet"), model, fs::copy_options::recursive);
  ringlet::write_file(folder / "d.csv", "a dog,a dog,5\na dog,a cat,1\n");
  const std::string data = (folder / "d.csv").string(),
                    line = out.string() + ": expected a model's folder, which is " + model.string();
  check_refused(
      run(str("encode - --model ", out.string(), " --output ", (folder / "e.npy").string()),
          {.input = kTexts}),
      line);
  check_refused(str("evaluate --model ", out.string(), " --data ", data), line);
  const std::string texts = (folder / "t.txt").string();
  ringlet::write_file(texts, kTexts);
  check_refused(str("search ", out.string(), " --queries ", texts, " --corpus ", texts), line);
  check_refused(str("train --batch 2 --model ", out.string(), " --data ", data, " --output ",
                    (folder / "new").string()),
                line);
  CHECK_FALSE(fs::exists(folder / "new"));

  // A checkpoint of the run, which is not there, is there, and is all that there is.
  const auto refused = [&](const fs::path& given, const std::string& rest) {
    const std::string found = given.string() + ": " + rest;
    check_refused(str("evaluate --model ", given.string(), " --data ", data), found);
    const Outcome training = run(str("train --model ", given.string(), " --data ", data,
                                     " --batch 2 --output ", (folder / "new").string()));
    CHECK_EQ(training.code, 2);
    CHECK(contains(training.err, found + "\n"));
  };
  const std::string meant = "expected a model's folder, which is " + model.string();
  refused(out / "checkpoint-8", meant);
  fs::create_directory(out / "checkpoint-8");
  ringlet::write_file(out / "checkpoint-8/trainer_state.json", "{}");
  refused(out / "checkpoint-8", meant);
  refused(out / "checkpoint-8/", meant);
  fs::rename(model, folder / "kept");
  for (const char* given : {"", "checkpoint-8", "checkpoint-9"})
    refused(out / given, str("a checkpoint holds no model; the run writes ", model.string(),
                             " at its end, to which `ringlet train --resume` brings it"));
  fs::rename(folder / "kept", out / "checkpoint-9");  // of Sentence Transformers
  refused(out, "expected a model's folder, such as " + (out / "checkpoint-9").string());
}

TEST_CASE("a number of threads in the environment that is none is refused" *
          doctest::test_suite("host")) {
  for (const char* threads : {"abc", "0", "-2", "3x", "100000"}) {
    const std::string variable = std::string("RINGLET_NUM_THREADS=") + threads;
    const Words command = str(variable, ' ', ringlet_program(), " encode - --model ",
                              oracle("mpnet"), " --output /tmp/e.npy");
    check_refused(run_program("env", command, {.input = kTexts}),
                  variable + ": expected a number from 1 to 4096");
  }
}
