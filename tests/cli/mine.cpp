// `ringlet mine` and `ringlet search` on the small published-style models of tests/oracles.
#include <algorithm>
#include <filesystem>
#include <set>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/train/data/readers.h"

namespace fs = std::filesystem;

namespace {

const std::string kSearchModel = ringlet::tests_file("oracles/mpnet");

const char* const kMiningPairs =
    "anchor,positive\n"
    "A man is playing a guitar.,A person makes music.\n"
    "Two dogs run.,The dogs are running.\n"
    "A man is playing a guitar.,\"He plays, it seems.\"\n"
    "The train leaves.,A train is leaving the station.\n";

std::vector<ringlet::Json> rows_of_jsonl(const fs::path& file) {
  std::vector<ringlet::Json> rows;
  const std::string text = ringlet::read_file(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    rows.push_back(ringlet::Json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return rows;
}

/// A folder with the pairs, and the words of a command that mines from them.
struct Mining {
  TemporaryFolder folder;
  Mining() { ringlet::write_file(folder / "pairs.csv", kMiningPairs); }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  Words command(const std::string& output, const std::string& more) const {
    return str("mine ", kSearchModel, " --data ", path("pairs.csv"), " --output ", path(output),
               ' ', more);
  }
  Outcome mine(const std::string& output, const std::string& more) const {
    const Outcome outcome = run(command(output, more));
    REQUIRE_EQ(outcome.code, 0);
    return outcome;
  }
};

}  // namespace

TEST_CASE("each format holds the same negatives, and train reads it") {
  const Mining job;
  job.mine("triplets.jsonl", "--num-negatives 2 --output-scores");
  job.mine("tuples.jsonl", "--num-negatives 2 --output-scores --output-format n-tuple");
  job.mine("pairs.jsonl", "--num-negatives 2 --output-format labeled-pair");
  job.mine("scores.jsonl", "--num-negatives 2 --output-format labeled-pair --output-scores");
  const std::vector<ringlet::Json> triplets = rows_of_jsonl(job.folder / "triplets.jsonl"),
                                   tuples = rows_of_jsonl(job.folder / "tuples.jsonl"),
                                   pairs = rows_of_jsonl(job.folder / "pairs.jsonl"),
                                   scores = rows_of_jsonl(job.folder / "scores.jsonl");
  REQUIRE_EQ(triplets.size(), 8);  // 4 positives, 2 negatives
  REQUIRE_EQ(tuples.size(), 4);
  REQUIRE_EQ(pairs.size(), 4 + 3 * 2);
  REQUIRE_EQ(scores.size(), pairs.size());
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const ringlet::Json &first = triplets[2 * i], &second = triplets[2 * i + 1];
    CHECK_EQ(tuples[i]["anchor"], first["anchor"]);
    CHECK_EQ(tuples[i]["positive"], second["positive"]);
    CHECK_EQ(tuples[i]["negative_1"], first["negative"]);
    CHECK_EQ(tuples[i]["negative_2"], second["negative"]);
    const ringlet::Json both{first["scores"][0], first["scores"][1], second["scores"][1]};
    CHECK_EQ(tuples[i]["scores"], both);
    CHECK_GE(first["scores"][1], second["scores"][1]);
  }
  CHECK_EQ(pairs[0]["sentence2"], "A person makes music.");
  CHECK_EQ(pairs[1]["sentence2"], "He plays, it seems.");
  CHECK_EQ(pairs[1]["label"], 1);
  CHECK_EQ(pairs[2]["sentence2"], triplets[0]["negative"]);
  CHECK_EQ(pairs[2]["label"], 0);
  CHECK_EQ(scores[2]["score"], triplets[0]["scores"][1]);

  const auto read = [&](const std::string& name) {
    return ringlet::train::read_dataset(job.folder / name);
  };
  CHECK(read("triplets.jsonl").columns() == Words{"anchor", "positive", "negative"});
  CHECK(read("tuples.jsonl").columns() == Words{"anchor", "positive", "negative_1", "negative_2"});
  CHECK_EQ(read("pairs.jsonl").num_labels(), 2);
  CHECK_EQ(read("scores.jsonl").score(2), scores[2]["score"].get<float>());
}

TEST_CASE("CSV holds the rows of JSON lines, also texts with commas and quotes") {
  const Mining job;
  ringlet::write_file(job.folder / "corpus.jsonl",
                      R"({"_id": "x", "text": "He said \"no\",\nand left."})"
                      "\n");
  const std::string more = "--num-negatives 4 --corpus " + job.path("corpus.jsonl");
  job.mine("mined.csv", more);
  job.mine("mined.jsonl", more);
  const auto csv = ringlet::train::read_dataset(job.folder / "mined.csv");
  const std::vector<ringlet::Json> rows = rows_of_jsonl(job.folder / "mined.jsonl");
  REQUIRE_EQ(csv.size(), rows.size());
  bool found = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ringlet::train::RowTexts texts = csv.texts(i);
    CHECK_EQ(texts[0], rows[i]["anchor"].get<std::string>());
    CHECK_EQ(texts[2], rows[i]["negative"].get<std::string>());
    found = found || texts[2] == "He said \"no\",\nand left.";
  }
  CHECK(found);
}

TEST_CASE("a summary tells scores, what options left out, and anchors without enough negatives") {
  const Mining job;
  const Outcome outcome = job.mine("mined.jsonl", "--num-negatives 5");
  CHECK(outcome.out.find("negatives ") != std::string::npos);
  CHECK(outcome.out.ends_with("3 of 3 anchors have fewer than 5 negatives\nwrote 10 rows to " +
                              job.path("mined.jsonl") + '\n'));
  CHECK_EQ(outcome.err.find(job.path("pairs.csv") +
                            ": 4 rows; columns anchor, positive\n3 of 3 queries, "),
           0);
  CHECK(outcome.err.find("4 of 4 documents, ") != std::string::npos);
  const Outcome none = run(job.command("none.jsonl", "--num-negatives 3 --min-score 2"));
  CHECK_EQ(none.code, 2);
  CHECK(none.err.ends_with(
      "--data " + job.path("pairs.csv") +
      ": expected an anchor with 1 or more negatives within --corpus and the limits of "
      "scores, found none\n"));
  CHECK_FALSE(fs::exists(job.folder / "none.jsonl"));
}

TEST_CASE("on two ranks, and from kept embeddings, the negatives are the same") {
  const Mining job;
  const std::string kept = " --output-scores --cache-folder " + job.path("kept");
  job.mine("alone.jsonl", "--output-scores");
  job.mine("kept.jsonl", kept);
  job.mine("again.jsonl", kept);
  CHECK_EQ(ringlet::list_folder(job.folder / "kept").size(), 2);  // queries, documents
  for (const char* options : {" --output-scores", kept.c_str()}) {
    REQUIRE_EQ(run(str("run -n 2 ", ringlet_program()) + job.command("two.jsonl", options)).code,
               0);
    CHECK_EQ(ringlet::read_file(job.folder / "two.jsonl"),
             ringlet::read_file(job.folder / "alone.jsonl"));
  }
  for (const char* name : {"kept.jsonl", "again.jsonl"})
    CHECK_EQ(ringlet::read_file(job.folder / name), ringlet::read_file(job.folder / "alone.jsonl"));
}

TEST_CASE("a text of the corpus that is a positive but for its ends is no negative") {
  const Mining job;
  ringlet::write_file(job.folder / "corpus.txt", "\n The dogs are running. \nA cat.\n");
  job.mine("mined.jsonl", "--num-negatives 5 --corpus " + job.path("corpus.txt"));
  std::set<std::string> negatives;
  for (const ringlet::Json& row : rows_of_jsonl(job.folder / "mined.jsonl")) {
    negatives.insert(row["negative"].get<std::string>());
    if (row["anchor"] == "Two dogs run.") CHECK_NE(row["negative"], " The dogs are running. ");
  }
  CHECK(negatives == std::set<std::string>{"A cat.", "A person makes music.",
                                           "A train is leaving the station.", "He plays, it seems.",
                                           " The dogs are running. "});
}

TEST_CASE("search gives the best documents of each query, with their ids") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "corpus.csv",
                      "id,text\nb,Two dogs run.\na,A man plays the guitar.\nc,\"It, rains.\"\n");
  ringlet::write_file(folder / "queries.txt", "It, rains.\nTwo dogs run.\n");
  const auto search = [&](const std::string& more) {
    const Outcome outcome =
        run(str("search ", kSearchModel, " --corpus ", (folder / "corpus.csv").string(),
                " --queries ", (folder / "queries.txt").string(), ' ', more));
    REQUIRE_EQ(outcome.code, 0);
    return outcome.out;
  };
  CHECK_EQ(search("--top-k 1"),
           "It, rains.\n  1.0000  c  It, rains.\nTwo dogs run.\n  1.0000  b  Two dogs run.\n");
  CHECK_EQ(search("--top-k 5 --output " + (folder / "hits.jsonl").string()), "");
  const std::vector<ringlet::Json> hits = rows_of_jsonl(folder / "hits.jsonl");
  REQUIRE_EQ(hits.size(), 6);
  CHECK_EQ(hits[3]["query-id"], "1");
  CHECK_EQ(hits[3]["corpus-id"], "b");
  CHECK_EQ(hits[3]["query"], hits[3]["text"]);
  CHECK_GE(hits[3]["score"], hits[4]["score"]);
  search("--similarity euclidean --output " + (folder / "hits.csv").string());
  CHECK(ringlet::read_file(folder / "hits.csv")
            .starts_with("query-id,query,corpus-id,score,text\n0,\"It, rains.\",c,-0.0,"));
}

TEST_CASE("search leaves out lines without text, and shares standard input between ranks") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "corpus.txt", "\nTwo dogs run.\n \nIt rains.\n");
  const Words search = str("search ", kSearchModel, " --corpus ", (folder / "corpus.txt").string(),
                           " --top-k 2 --queries -");
  const Outcome alone = run(search, {.input = "It rains.\n\n"});
  CHECK_EQ(alone.code, 0);
  CHECK(alone.out.starts_with("It rains.\n  1.0000  3  It rains.\n"));
  CHECK_EQ(count(alone.out, "\n"), 3);
  const Outcome two = run(str("run -n 2 ", ringlet_program()) + search, {.input = "It rains.\n\n"});
  CHECK_EQ(two.code, 0);
  CHECK(two.out.starts_with("[0] It rains.\n[0]   1.0000  3  It rains.\n"));
}

TEST_CASE("an output that the command reads is refused, and kept") {
  const Mining job;
  ringlet::write_file(job.folder / "corpus.csv", "id,text\n1,It rains.\n");
  const auto refused = [&](const Words& command, const char* file, const char* reader) {
    const std::string before = ringlet::read_file(job.folder / file);
    check_refused(command, str("--output ", job.path(file), ": ", reader, " reads this file"));
    CHECK_EQ(ringlet::read_file(job.folder / file), before);
  };
  const std::string corpus = " --corpus " + job.path("corpus.csv");
  refused(job.command("pairs.csv", corpus), "pairs.csv", "--data");
  refused(job.command("corpus.csv", corpus), "corpus.csv", "--corpus");
  const auto search = [&](const char* output) {
    return Words(str("search ", kSearchModel, corpus, " --queries ", job.path("corpus.csv"),
                     " --output ", job.path(output)));
  };
  refused(search("corpus.csv"), "corpus.csv", "--queries");
  fs::create_symlink("corpus.csv", job.folder / "link.jsonl");
  fs::create_hard_link(job.folder / "corpus.csv", job.folder / "other.jsonl");
  for (const char* file : {"link.jsonl", "other.jsonl"}) refused(search(file), file, "--queries");
}

TEST_CASE("a prompt goes before a text as it is, with its white space") {
  const TemporaryFolder folder;
  const auto scores = [&](const std::string& query, const std::string& prompt) {
    ringlet::write_file(folder / "queries.csv", "text\n" + query + "\n");
    ringlet::write_file(folder / "corpus.txt", "a  dog\nA cat.\n");
    const Words command =
        str("search ", kSearchModel, " --top-k 2 --corpus ", (folder / "corpus.txt").string(),
            " --queries ", (folder / "queries.csv").string());
    const Outcome outcome = run(command + Words{"--query-prompt", prompt});
    REQUIRE_EQ(outcome.code, 0);
    return outcome.out.substr(outcome.out.find('\n'));
  };
  CHECK_EQ(scores(" dog", "a"), scores("a dog", ""));
  CHECK_NE(scores(" dog", "a"), scores("adog", ""));
}

TEST_CASE("a relative folder keeps embeddings, those of an instruction set apart") {
  const Mining job;
  const fs::path before = fs::current_path();
  fs::current_path(job.folder.path());
  job.mine("mined.jsonl", "--cache-folder kept");
  CHECK_EQ(ringlet::list_folder(job.folder / "kept").size(), 2);
  const bool has_portable = ringlet::cpu::supported(ringlet::cpu::Isa::portable);
  if (has_portable) ::setenv("RINGLET_ISA", "portable", 1);
  job.mine("portable.jsonl", "--cache-folder kept");
  ::unsetenv("RINGLET_ISA");
  fs::current_path(before);
  const bool has_others = ringlet::cpu::isa() != ringlet::cpu::Isa::portable;
  CHECK_EQ(ringlet::list_folder(job.folder / "kept").size(), has_portable && has_others ? 4 : 2);
}

TEST_CASE("scores of distances are refused in labeled pairs, which train reads as cosines") {
  const Mining job;
  const fs::path model = job.folder / "model";
  fs::copy(kSearchModel, model, fs::copy_options::recursive);
  ringlet::write_file(model / "config_sentence_transformers.json",
                      R"({"similarity_fn_name": "euclidean"})");
  const auto command = [&](const std::string& more) {
    return Words(str("mine ", model.string(), " --data ", job.path("pairs.csv"), " --output ",
                     job.path("mined.jsonl"), ' ', more));
  };
  check_refused(command("--output-format labeled-pair --output-scores"),
                "--output-scores: expected the similarity cosine or dot with labeled-pair, found "
                "euclidean");
  CHECK_FALSE(fs::exists(job.folder / "mined.jsonl"));
  CHECK_EQ(run(command("--output-format labeled-pair")).code, 0);
  CHECK_EQ(run(command("--output-scores")).code, 0);
}

TEST_CASE("an anchor may be its own negative, and the summary says so") {
  const Mining job;
  ringlet::write_file(job.folder / "corpus.txt", "Two dogs run.\n");
  const Outcome outcome =
      job.mine("mined.jsonl", "--num-negatives 1 --corpus " + job.path("corpus.txt"));
  CHECK(contains(outcome.out, "1 of 3 anchors have their own text as a negative\n"));
  const std::vector<ringlet::Json> rows = rows_of_jsonl(job.folder / "mined.jsonl");
  CHECK(std::ranges::any_of(
      rows, [](const ringlet::Json& row) { return row["anchor"] == row["negative"]; }));
}

TEST_CASE("mine and search refuse files and options that do not fit, and write nothing") {
  const Mining job;
  const auto refused = [&](const std::string& more, const std::string& line) {
    check_refused(job.command("mined.jsonl", more), line);
    CHECK_FALSE(fs::exists(job.folder / "mined.jsonl"));
  };
  refused("--range-min 4 --range-max 6",
          "--range-max: expected a range_max of at least 7, range_min plus num_negatives, found 6");
  refused("--query-prompt x --query-prompt-name y", "--query-prompt-name excludes --query-prompt");
  refused("--output-format n-tuple --num-negatives 15",
          "--output-format n-tuple: expected --num-negatives of at most 14, found 15");
  refused("--cache-folder " + kSearchModel + "/kept",
          "--cache-folder " + kSearchModel + "/kept: expected one outside the model's");
  ringlet::write_file(job.folder / "corpus.json", "{\"text\": \"a\"}\n");
  refused(
      "--corpus " + job.path("corpus.json"),
      job.path("corpus.json") + ": expected lines of text, found JSON; its name ends in .jsonl");
  check_refused(str("search ", kSearchModel, " --queries - --corpus -"),
                "--corpus -: --queries reads standard input");
  for (const std::string option : {"--query-prompt-name", "--corpus-prompt-name"})
    refused(option + " y", option + ": prompt name 'y': expected one of 'document', 'query'");
  ringlet::write_file(job.folder / "empty.csv", "id,text\n");
  refused("--corpus " + job.path("empty.csv"),
          "--corpus " + job.path("empty.csv") + ": expected texts, found none");
  check_refused(job.command("mined.parquet", ""),
                job.path("mined.parquet") + ": expected a name that ends in .csv or .jsonl");
  ringlet::write_file(job.folder / "pairs.csv", "sentence1,sentence2,score\na,b,1\n");
  refused("",
          "--data " + job.path("pairs.csv") + ": expected pairs of texts without labels or scores");
  ringlet::write_file(job.folder / "pairs.csv", "anchor,positive,negative\na,b,c\n");
  refused("", "--data " + job.path("pairs.csv") +
                  ": expected two columns of texts, found anchor, positive, negative");
  ringlet::write_file(job.folder / "pairs.csv", "anchor,positive\na,b\nc, \n");
  refused("", job.path("pairs.csv") + ":3: expected a text in 'positive', found none");
  check_refused(str("search ", kSearchModel, " --queries ", job.path("empty.csv"), " --corpus x"),
                "--queries " + job.path("empty.csv") + ": expected texts, found none");
}
