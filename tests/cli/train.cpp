#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/tests/npy.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/cli/loss_kind.h"
#include "ringlet/train/report/event_file.h"

namespace fs = std::filesystem;

namespace {

// Instrumented code is too slow to learn; it only takes a few steps.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kInstrumented = true;
#elif defined(__has_feature)
constexpr bool kInstrumented = __has_feature(address_sanitizer);
#else
constexpr bool kInstrumented = false;
#endif

/// TensorBoard's files of a run.
std::ptrdiff_t event_files(const fs::path& output) {
  return std::ranges::count_if(ringlet::list_folder(output), [](const fs::path& path) {
    return path.filename().string().starts_with(ringlet::train::kEventFile);
  });
}

}  // namespace

TEST_CASE("the wait for the first batch is logged, and later steps start no thread" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run(str("train --model tiny --max-steps 40 --no-progress --threads-per-device 1 --output ",
              (folder / "out").string()));
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  const fs::path metrics = folder / "out/metrics.jsonl";
  const std::vector<double> waited = column(metrics, "data_wait_ms");
  const std::vector<double> threads = column(metrics, "threads_started");
  REQUIRE_EQ(waited.size(), 4);  // of ten steps each
  CHECK(waited[0] > 0);
  for (std::size_t i = 1; i < threads.size(); ++i) CHECK_EQ(threads[i], 0);
}

TEST_CASE("from random weights on the project's own data, NLI's loss falls below guessing") {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  const Outcome outcome =
      run(str("train --model tiny --output ", output, " --max-steps ", kInstrumented ? 20 : 240));
  REQUIRE_EQ(outcome.code, 0);
  CHECK(contains(outcome.err, "pairs/s"));
  CHECK(outcome.out.ends_with("wrote " + output + ": model/, metrics.jsonl, curves.svg, eval/\n"));
  const double dev = column(folder / "out/metrics.jsonl", "eval_nli-dev_loss").back();
  CHECK(std::isfinite(dev));
  if (!kInstrumented) {
    CHECK(dev < std::log(3.0) - 0.1);
    CHECK(column(folder / "out/metrics.jsonl", "nli-dev_accuracy").back() > 0.5);
  }
  const std::string curves = ringlet::read_file(folder / "out/curves.svg");
  CHECK(contains(curves, "loss_nli"));
  CHECK_FALSE(contains(curves, "page_faults"));  // neither a loss nor a score

  // The written model embeds text and evaluates.
  const std::string model = output + "/model";
  const std::string embeddings = (folder / "e.npy").string();
  REQUIRE_EQ(run(str("encode - --model ", model, " --output ", embeddings),
                 {.input = "A dog runs.\n\nA dog runs."})
                 .code,
             0);
  const ringlet::Tensor e = read_npy(embeddings);
  CHECK_EQ(e.shape(), ringlet::Shape{3, 128});
  CHECK_EQ(e[0].to_vector(), e[2].to_vector());  // and the empty line keeps its place
  ringlet::write_file(folder / "pairs.csv", "a dog runs,a dog runs,5\na dog runs,a man sings,0\n");
  const Outcome score =
      run(str("evaluate --model ", model, " --data ", (folder / "pairs.csv").string(), " --json"));
  REQUIRE_EQ(score.code, 0);
  CHECK(ringlet::Json::parse(score.out)["spearman_cosine"].number() == doctest::Approx(1));
}

TEST_CASE("activations in bf16 train other bits, and what is written is f32 all the same") {
  const TemporaryFolder folder;
  REQUIRE_EQ(run(short_training(folder / "f32", 3, "--tensorboard")).code, 0);
  REQUIRE_EQ(run(short_training(folder / "bf16", 3, "--dtype bf16")).code, 0);
  CHECK_EQ(event_files(folder / "f32"), 1);
  CHECK_EQ(event_files(folder / "bf16"), 0);
  CHECK(weights_in(folder / "bf16") != weights_in(folder / "f32"));
  const auto file = ringlet::SafeTensors::open(folder / "bf16/model/model.safetensors");
  for (const std::string& name : file.names()) CHECK(file.dtype(name) == ringlet::DType::f32);
  // bf16 keeps eight bits: a loss near 1 is the same to a few hundredths.
  const double wide = column(folder / "f32/metrics.jsonl", "loss_nli-train").back();
  const double narrow = column(folder / "bf16/metrics.jsonl", "loss_nli-train").back();
  CHECK(std::abs(narrow - wide) < 0.05);
}

TEST_CASE(
    "SGD has a rate of its own; a run that is resumed ends with the bits of one that was not") {
  const TemporaryFolder folder;
  const auto train = [&](const char* output, Words more) {
    return run(short_training(folder / output, 6, "--optimizer sgd --save-steps 3" + more));
  };
  const Words momentum = "--lr 0.1 --momentum 0.9";
  REQUIRE_EQ(train("plain", "--lr 0.1").code, 0);
  const Outcome whole = train("whole", momentum);
  REQUIRE_EQ(whole.code, 0);
  CHECK(weights_in(folder / "plain") != weights_in(folder / "whole"));
  fs::copy(folder / "whole", folder / "parts", fs::copy_options::recursive);
  // As if the second run had ended after its first checkpoint.
  fs::remove_all(folder / "parts/checkpoint-6");
  fs::remove_all(folder / "parts/model");
  check_refused(train("parts", momentum), "--output " + (folder / "parts").string() +
                                              ": the folder has a run; --resume goes on from its "
                                              "checkpoint-3");
  const Outcome resumed = train("parts", momentum + "--resume");
  REQUIRE_EQ(resumed.code, 0);
  const auto mean = [](const Outcome& outcome) {  // "6 steps, mean loss nli X, sts Y"
    return outcome.out.substr(0, outcome.out.rfind(", ", outcome.out.find(" pairs/s")));
  };
  CHECK_EQ(mean(resumed), mean(whole));
  CHECK(weights_in(folder / "parts") == weights_in(folder / "whole"));

  check_refused(train("none", {}), "--optimizer sgd: needs --lr; the rates by default are adamw's");
  check_refused(run(tiny_training(folder / "none", 1, "--momentum 0.5")),
                "--momentum: only sgd has it; adamw has betas");
  CHECK_FALSE(fs::exists(folder / "none"));
}

TEST_CASE("--threads-per-device is how many threads a device has" * doctest::test_suite("host")) {
  const TemporaryFolder folder;
  // Threads of the program while it trains: the device's, and a constant number of others.
  const auto threads = [&](const std::string& per_device) {
    const fs::path output = folder / per_device;
    const Background job(Words{ringlet_program()} +
                         tiny_training(output, 100'000, str("--threads-per-device ", per_device)));
    REQUIRE(Background::until(
        [&] {
          return fs::exists(output / "metrics.jsonl") &&
                 fs::file_size(output / "metrics.jsonl") > 0;
        },
        120));
    return std::distance(fs::directory_iterator("/proc/" + std::to_string(job.pid()) + "/task"),
                         {});
  };
  CHECK_EQ(threads("5") - threads("1"), 4);
}

TEST_CASE("a run that is interrupted saves behind its step, says so and can be resumed") {
  const TemporaryFolder folder;
  const fs::path metrics = folder / "out/metrics.jsonl";
  // Ends the run after step `after`, when its line of metrics is written; returns the saved step.
  const auto interrupt = [&](int signal, const char* name, int after, bool resume) {
    const Words command = str("train --model tiny --max-steps 4000 --no-progress --output ",
                              (folder / "out").string(), resume ? " --resume" : "");
    const std::string line = "{\"step\":" + std::to_string(after) + ",";
    const Outcome outcome =
        run(command, {.signal = signal, .when = [&] {
                        return fs::exists(metrics) && contains(ringlet::read_file(metrics), line);
                      }});
    CHECK_EQ(outcome.code, 128 + signal);
    CHECK_EQ(outcome.out, "");
    const auto saved = ringlet::train::latest_checkpoint(folder / "out");
    REQUIRE(saved);
    const int step = std::stoi(saved->filename().string().substr(11));
    CHECK_GE(step, after);
    CHECK_EQ(outcome.err, std::string(resume ? "" : "no --data: trains on generated sentences\n") +
                              "ringlet: " + name + " after step " + std::to_string(step) +
                              " of 4000: saved " + saved->string() +
                              "; --resume goes on from there\n");
    return step;
  };
  const int first = interrupt(SIGINT, "SIGINT", 10, false);
  const int second = interrupt(SIGTERM, "SIGTERM", (first / 10 + 1) * 10, true);
  interrupt(SIGHUP, "SIGHUP", (second / 10 + 1) * 10, true);
  CHECK_FALSE(fs::exists(folder / "out/model"));
}

TEST_CASE("a model is written to its end, also after SIGTERM") {
  bool seen = false;  // half-written
  for (int i = 0; i < 100 && !seen; ++i) {
    const TemporaryFolder folder;
    const fs::path output = folder / "out";
    const auto is_there = [&] {
      for (const fs::path& path : ringlet::list_folder(output))
        seen = seen || path.filename().string().starts_with(".model.");
      return seen || fs::exists(output / "model");
    };
    run(only_steps(output, 2), {.signal = SIGTERM, .when = is_there});
    for (const fs::path& path : ringlet::list_folder(output))
      CHECK_FALSE(path.filename().string().starts_with(".model."));
    CHECK(fs::exists(output / "model/model.safetensors"));
  }
  CHECK(seen);
}

TEST_CASE("ranks save once for a signal to their parent or to the whole process group") {
  for (const bool to_group : {false, true}) {
    const TemporaryFolder folder;
    const fs::path metrics = folder / "out/metrics.jsonl";
    const int signal = to_group ? SIGINT : SIGTERM;
    const Outcome outcome =
        run(short_training(folder / "out", 4000, "--strategy fsdp --devices 2"),
            {.signal = signal, .to_group = to_group, .when = [&] {
               return fs::exists(metrics) && contains(ringlet::read_file(metrics), "{\"step\":10,");
             }});
    CHECK_EQ(outcome.code, 128 + signal);
    CHECK(contains(outcome.err, to_group ? "SIGINT after step " : "SIGTERM after step "));
    CHECK(contains(outcome.err, "--resume goes on from there"));
    CHECK(ringlet::train::latest_checkpoint(folder / "out").has_value());
    CHECK_FALSE(fs::exists(folder / "out/model"));
  }
}

TEST_CASE("closed standard streams do not become files of the run") {
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  const Words closed{"-c", "exec \"$0\" \"$@\" <&- >&- 2>&-", ringlet_program()};
  CHECK_EQ(run_program("sh", closed + only_steps(output, 3)).code, 0);
  CHECK(fs::exists(output / "model"));
  std::istringstream lines(ringlet::read_file(output / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) CHECK(ringlet::Json::try_parse(line));
}

TEST_CASE("a run that ended before its first checkpoint is started again in its folder") {
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  const Outcome killed =
      run(tiny_training(output, 4000, "--save-steps 4000"),
          {.signal = SIGKILL, .when = [&] { return fs::exists(output / "metrics.jsonl"); }});
  CHECK_EQ(killed.code, 1000 + SIGKILL);
  const std::string refusal =
      "--output " + output.string() + ": the folder is not empty; remove it, or name another";
  for (const char* foreign : {"notes.txt", "model", "checkpoint-5", "metrics.jsonl.old"}) {
    ringlet::write_file(output / foreign, "");
    check_refused(run(only_steps(output, 2)), refusal);
    fs::remove(output / foreign);
  }
  const Outcome again = run(only_steps(output, 2));
  CHECK_EQ(again.code, 0);
  CHECK_EQ(again.err, output.string() +
                          ": a run that ended before its first checkpoint is started again\n"
                          "no --data: trains on generated sentences\n");
  CHECK_EQ(run(only_steps(folder / "fresh", 2)).code, 0);
  CHECK_EQ(ringlet::read_file(output / "metrics.jsonl").size() > 0, true);
  CHECK_EQ(weights_in(output), weights_in(folder / "fresh"));
  check_refused(run(only_steps(output, 2)), refusal);
}

TEST_CASE("SIGQUIT asks for a core dump and saves nothing") {
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  const Outcome outcome =
      run(tiny_training(output, 4000, "--save-steps 4000"),
          {.signal = SIGQUIT, .when = [&] { return fs::exists(output / "metrics.jsonl"); }});
  CHECK_EQ(outcome.code, 1000 + SIGQUIT);
  CHECK_FALSE(ringlet::train::latest_checkpoint(output));
}

TEST_CASE("scores of tables go up to the score scale, classes to a thousand unless told") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "sts.tsv",
                      "sentence1\tsentence2\tscore\na b\ta b\t5\nc\td\t0\ne\tf\t2.5\n");
  const std::string sts = (folder / "sts.tsv").string();
  const auto train = [&](const std::string& data, Words more) {
    fs::remove_all(folder / "out");
    return run(str("train --model tiny --batch 2 --no-progress --output ",
                   (folder / "out").string(), " --data ", data) +
               more);
  };
  check_refused(train(sts, {}),
                sts + ":2: score 5 is out of range: expected -1 to 1 (score scale 1)");
  CHECK_EQ(train(sts, str("--score-scale 5 --eval ", sts)).code, 0);
  const Outcome score = run(str("evaluate --model ", (folder / "out/model").string(), " --data ",
                                sts, " --score-scale 5 --json"));
  CHECK_EQ(score.code, 0);
  CHECK_EQ(ringlet::Json::parse(score.out)["rows"], 3);

  ringlet::write_file(folder / "ids.csv", "sentence1,sentence2,label\na,b,0\nc,d,1000\n");
  const std::string ids = (folder / "ids.csv").string();
  check_refused(train(ids, {}), "--data " + ids +
                                    ": label 1000 makes 1001 classes; say --num-labels if there "
                                    "are so many");
  CHECK_EQ(train(ids, "--num-labels 1001").code, 0);
}

TEST_CASE("a rename is for the files that have the column, and some file must have it") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "nli.jsonl",
                      "{\"premise\": \"a\", \"hypothesis\": \"b\", \"label\": 0}\n"
                      "{\"premise\": \"c\", \"hypothesis\": \"d\", \"label\": 1}\n");
  ringlet::write_file(folder / "sts.csv", "sentence1,sentence2,score\na,b,1\nc,d,0\n");
  ringlet::write_file(folder / "dev.csv", "left,sentence2,score\na b,a b,1\nc,d,0\ne,f,0.5\n");
  const auto train = [&](const std::string& columns) {
    return run(str("train --model tiny --batch 2 --no-progress --columns ", columns, " --output ",
                   (folder / "out").string(), " --data ", (folder / "nli.jsonl").string(),
                   " --data ", (folder / "sts.csv").string(), " --eval ",
                   (folder / "dev.csv").string()));
  };
  const std::string columns = "premise=sentence1,hypothesis=sentence2";
  check_refused(train(columns + ",left=sentence1,right=sentence2"),
                "--columns: no file has a column 'right' to use as 'sentence2'");
  check_refused(train("right"), "--columns: expected NAME_IN_FILE=NAME, found 'right'");
  check_refused(train("premise=sentence1,left=sentence1"),
                (folder / "nli.jsonl").string() + ":1: no column 'left' to use as 'sentence1'");
  CHECK_FALSE(fs::exists(folder / "out"));
  CHECK_EQ(train(columns + ",left=sentence1").code, 0);
}

TEST_CASE("several files train with the loss their columns call for or the one they name") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "labels.csv",
                      "sentence1,sentence2,label\na,b,0\nc,d,1\ne,f,0\ng,h,1\n");
  ringlet::write_file(folder / "pairs.tsv", "anchor\tpositive\na\tb\nc\td\ne\tf\ng\th\n");
  const std::string labels = (folder / "labels.csv").string();
  const std::string pairs = (folder / "pairs.tsv").string();
  const std::string losses = ringlet::cli::loss_names();
  const auto train = [&](Words more, const char* batch = "2") {
    fs::remove_all(folder / "out");
    return run(str("train --model tiny --batch ", batch, " --no-progress --output ",
                   (folder / "out").string()) +
               more);
  };
  CHECK_EQ(train(str("--data ", labels, " --data ", pairs, " --eval ", labels)).code, 0);
  const Outcome even = train(str("--data ", pairs + ":mnrl", " --padded --schedule cosine"));
  CHECK_EQ(even.code, 0);
  const std::string report = pairs + ": 4 rows; columns anchor, positive\n";
  CHECK_EQ(even.err, report);
  const Outcome odd = train(str("--data ", pairs), "3");
  CHECK_EQ(odd.code, 0);
  CHECK_EQ(odd.err,
           report +
               "1 of the rows trained lay alone in their batch, where their loss finds nothing to "
               "compare: they changed nothing\n");
  check_refused(train(str("--data ", pairs + ":softmax")),
                "--data " + pairs + ": loss softmax needs a pair of sentences and a label");
  check_refused(train(str("--data ", pairs + ":softmaks")),
                "--data " + pairs + ":softmaks: unknown loss 'softmaks'; expected " + losses);
  check_refused(train(str("--data ", pairs, " --loss x")),
                "--loss: unknown loss 'x'; expected " + losses);
  check_refused(train(str("--data ", labels, " --eval ", pairs)),
                "--eval " + pairs +
                    ": expected pairs of sentences with scores or labels, triplets, relevant pairs "
                    "(query-id, corpus-id, score), or a query with positive and negative texts; "
                    "found anchor, positive");
  CHECK_FALSE(fs::exists(folder / "out"));
  // A loss needs no evaluator.
  REQUIRE_EQ(train(str("--data ", pairs, " --eval ", pairs)).code, 0);
  const std::string metrics = ringlet::read_file(folder / "out/metrics.jsonl");
  CHECK(metrics.find("\"eval_loss\":") != std::string::npos);
  const std::string card = ringlet::read_file(folder / "out/model/README.md");
  CHECK(card.find("LabelAccuracyEvaluator") == std::string::npos);
}

TEST_CASE("each loss trains on its columns, alone and on two ranks") {
  const TemporaryFolder folder;
  std::string pairs = "sentence1\tsentence2\tlabel\n", scored = "sentence1\tsentence2\tscore\n",
              ranked = "anchor\tpositive\tnegative\n",
              many = "anchor\tpositive\tnegative\tnegative_1\n", classes = "sentence\tlabel\n";
  for (int i = 0; i < 16; ++i) {
    const std::string a = str("a", i, " b"), b = str("c d", i), c = str("e", i), d = str("f g", i);
    pairs += str(a, '\t', b, '\t', i % 2, '\n');
    scored += str(a, '\t', b, "\t0.", i % 7, '\n');
    ranked += str(a, '\t', b, '\t', c, '\n');
    many += str(a, '\t', b, '\t', c, '\t', d, '\n');
    classes += str(a, '\t', i % 3, '\n');
  }
  const auto file = [&](const char* name, const std::string& text) {
    ringlet::write_file(folder / name, text);
    return (folder / name).string();
  };
  const std::string labelled = file("pairs.tsv", pairs), scores = file("scored.tsv", scored),
                    triplets = file("ranked.tsv", ranked), negatives = file("many.tsv", many),
                    single = file("classes.tsv", classes);
  const auto train = [&](const Words& more) {
    fs::remove_all(folder / "out");
    return run("train --model tiny --epochs 1 --batch 4 --no-progress --output" +
               Words{(folder / "out").string()} + more);
  };
  for (const std::string& data :
       {labelled + ":softmax", scores + ":cosine", scores + ":cosent", scores + ":angle",
        negatives + ":mnrl", triplets + ":symmetric", triplets + ":triplet",
        labelled + ":contrastive", labelled + ":online_contrastive", single + ":batch_hard"}) {
    CAPTURE(data);
    CHECK_EQ(train(Words{"--data", data}).code, 0);
    CHECK_EQ(train(Words{"--data", data, "--strategy", "ddp", "--devices", "2"}).code, 0);
  }
  CHECK_EQ(train(Words{"--data", triplets + ":mnrl", "--gradient-accumulation-steps", "2",
                       "--mini-batch-size", "2", "--negatives", "global", "--scale", "30",
                       "--matryoshka-dims", "16,8"})
               .code,
           0);
  check_refused(train(Words{"--data", scores, "--margin", "1"}),
                "--margin: no loss of this run has it");
  check_refused(train(Words{"--data", labelled, "--matryoshka-dims", "8"}),
                "--matryoshka-dims: softmax needs whole embeddings; expected other losses");
  check_refused(train(Words{"--data", scores, "--matryoshka-dims", "16,8,16"}),
                "--matryoshka-dims: MatryoshkaLoss: expected each dimension once, found 16 twice");
  check_refused(train(Words{"--data", scores + ":triplet"}),
                "--data " + scores + ": loss triplet needs an anchor, a positive and a negative");
  check_refused(train(Words{"--data", scores, "--negatives", "local"}),
                "--negatives: no loss of this run has it");
  check_refused(train(Words{"--data", single + ":batch_hard", "--data", negatives}),
                "--data: the losses need the batch samplers group_by_label and no_duplicates; "
                "expected --batch-sampler with one");
  const std::string three = file("three.tsv", "sentence1\tsentence2\tlabel\na\tb\t2\nc\td\t1\n");
  check_refused(train(Words{"--data", three + ":online_contrastive"}),
                "--data " + three + ": loss online_contrastive needs labels 0 and 1, found 2");
  const std::string negative = file("less.tsv", "sentence1\tsentence2\tscore\na\tb\t-0.5\n");
  check_refused(
      train(Words{"--data", negative + ":contrastive"}),
      "--data " + negative + ": loss contrastive needs scores from 0 to 1, found -0.5 in row 1");
  check_refused(train(Words{"--data", single}),
                "--data " + single +
                    ": expected two or more columns of text, found one; one with labels is for "
                    "the loss batch_hard");
}

TEST_CASE("files of several folders are told apart by short names, in metrics, curves and tables") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    fs::create_directory(folder / name);
    ringlet::write_file(folder / name / "train.csv",
                        "sentence1,sentence2,label\na,b,0\nc,d,1\ne,f,0\ng,h,1\n");
    ringlet::write_file(folder / name / "dev.csv", "sentence1,sentence2,score\na,b,1\nc,d,0\n");
  }
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const Outcome outcome =
      run(str("train --model tiny --batch 2 --max-steps 4 --data ", file("a/train.csv"), " --data ",
              file("b/train.csv"), " --eval ", file("a/dev.csv"), " --eval ", file("b/dev.csv"),
              " --output ", file("out")));
  REQUIRE_EQ(outcome.code, 0);
  const fs::path metrics = folder / "out/metrics.jsonl";
  CHECK_EQ(ringlet::read_file(metrics).find('/'), std::string::npos);
  for (const char* name :
       {"loss_train", "loss_train-2", "dev_spearman_cosine", "dev-2_spearman_cosine"})
    CHECK(column(metrics, name).size() >= 1);
  for (const char* name : {"dev", "dev-2"})
    CHECK(fs::exists(folder / "out/eval" / str("similarity_evaluation_", name, "_results.csv")));
  const std::string curves = ringlet::read_file(folder / "out/curves.svg");
  CHECK(contains(curves, ">loss_train-2</text>"));
  CHECK_FALSE(contains(curves, folder.path().string()));
  CHECK(contains(curves, "<circle"));  // one line of metrics
  // Each loss separately, at each step and at the end.
  CHECK(contains(outcome.err, "***** Running training *****\n  Num examples = 8\n"));
  CHECK(contains(outcome.err, "step 4/4  train "));
  CHECK(contains(outcome.err, "  train-2 "));
  CHECK(outcome.out.find("4 steps, mean loss train ") == 0);
  CHECK(contains(outcome.out, ", train-2 "));
}

TEST_CASE("an epoch uses every row unless round robin is asked for, and lines say what it uses") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "few.csv", "sentence1,sentence2,score\na,b,1\nc,d,0\n");
  std::string many = "sentence1,sentence2,label\n";
  for (int row = 0; row < 8; ++row) many += str("a", row, ",b,", row % 2, '\n');
  ringlet::write_file(folder / "many.csv", many);
  const auto train = [&](const std::string& more) {
    fs::remove_all(folder / "out");
    return run(str("train --model tiny --batch 2 --data ", (folder / "many.csv").string(),
                   " --data ", (folder / "few.csv").string(), " --output ",
                   (folder / "out").string(), more));
  };
  const Outcome all = train("");
  CHECK_EQ(all.code, 0);
  CHECK(all.out.starts_with("5 steps, "));
  CHECK(contains(all.err, "\nan epoch takes 5 steps: 8 of 8 rows of many, 2 of 2 of few\n"));
  CHECK_FALSE(contains(all.err, "ended with"));
  const Outcome robin = train(" --dealing round_robin --epochs 2");
  CHECK_EQ(robin.code, 0);
  CHECK(robin.out.starts_with("4 steps, "));
  CHECK(contains(robin.err, "\nan epoch takes 2 steps: 2 of 8 rows of many, 2 of 2 of few\n"));
  CHECK(contains(robin.err, "epoch 1 ended with few: 25.0 % of many's 8 rows were used\n"));
  CHECK(contains(robin.err, "epoch 2 ended with few: "));
  // A run that leaves rows out says so without progress, too.
  const std::string quiet = train(" --dealing round_robin --no-progress").err;
  CHECK(quiet.ends_with("\nepoch 1 ended with few: 25.0 % of many's 8 rows were used\n"));
  CHECK_EQ(count(quiet, "\n"), 3);
}

TEST_CASE("a name of random weights names the published ones, bad input stays one line") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "few.csv", "sentence1,sentence2,score\na,b,1\nc,d,0\n");
  const auto train = [&](const std::string& data) {
    return run(str("train --model minilm-l6 --batch 2 --max-steps 1 --no-progress --data ",
                   (folder / data).string(), " --output ", (folder / "out").string()));
  };
  const Outcome absent = train("absent.csv");
  CHECK_EQ(absent.code, 2);
  CHECK_FALSE(contains(absent.err, "random weights"));
  const Outcome outcome = train("few.csv");
  CHECK_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err,
           "minilm-l6: random weights; --model nreimers/MiniLM-L6-H384-uncased for the published "
           "ones\n" +
               (folder / "few.csv").string() +
               ": 2 rows; columns sentence1, sentence2, score; score scale 1\n");
}

TEST_CASE("a student learns the embeddings of its teacher, under each strategy alike") {
  const TemporaryFolder folder;
  const std::string student = ringlet::tests_file("oracles/mpnet"),
                    teacher = ringlet::tests_file("oracles/xlmr");
  std::string lines = "sentence1,sentence2\n";
  const auto shouted = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
  };
  for (const char* who : {"A man", "Two dogs", "The choir", "A keeper"})
    for (const char* what : {" runs.", " sings a song.", " is at home.", " sleeps in the snow."}) {
      const std::string text = std::string(who) + what;
      lines += text + ',' + shouted(text) + '\n';  // other tokens for the teacher
    }
  ringlet::write_file(folder / "texts.csv", lines);
  const std::string texts = (folder / "texts.csv").string();
  // evaluate embeds the first column by the teacher, the second one by the student.
  const auto distance = [&](const std::string& model) {
    const Outcome outcome =
        run(str("evaluate --model ", model, " --data ", texts, " --teacher ", teacher, " --json"));
    REQUIRE_EQ(outcome.code, 0);
    return -ringlet::Json::parse(outcome.out)["negative_mse"].get<double>();
  };
  const auto train = [&](const std::string& more) {
    fs::remove_all(folder / "out");
    return run(str("train --model ", student, " --data ", texts, ":mse --eval ", texts,
                   " --lr 1e-3 --max-steps 40 --eval-steps 20 --no-progress --output ",
                   (folder / "out").string(), ' ', more));
  };
  const auto last_loss = [&] {
    const std::string metrics = ringlet::read_file(folder / "out/metrics.jsonl");
    const std::size_t at = metrics.rfind("\"eval_loss\":");
    REQUIRE_NE(at, std::string::npos);
    return std::stod(metrics.substr(at + 12));
  };
  const double before = distance(student);
  REQUIRE_EQ(train("--batch 8 --teacher " + teacher).code, 0);
  const double alone = last_loss();
  CHECK_LT(distance((folder / "out/model").string()), before / 4);
  for (const char* strategy : {"ddp", "dp", "zero2", "fsdp"}) {
    CAPTURE(strategy);
    REQUIRE_EQ(
        train(str("--batch 4 --devices 2 --strategy ", strategy, " --teacher ", teacher)).code, 0);
    CHECK_EQ(last_loss(), doctest::Approx(alone).epsilon(1e-3));
  }
  const std::string other = ringlet::tests_file("oracles/bert");
  check_refused(train("--batch 8 --teacher " + other),
                "--teacher " + other + ": its embeddings have 48 numbers, the model's 32");
  check_refused(train(""), "loss mse: expected --teacher FOLDER");
  check_refused(train("--batch 8 --teacher /none"), "--teacher /none: no such folder");
  check_refused(
      run(str("train --model tiny --teacher ", teacher, " --output ", (folder / "out").string())),
      "--teacher: no loss of this run is mse");
}
