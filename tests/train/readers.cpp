#include "ringlet/train/data/readers.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "ringlet/tests/files.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

TextDataset read(std::string_view text, const ReadOptions& options = {},
                 const std::string& name = "a.csv") {
  return read_dataset(LineReader(bytes_of(text), name), options);
}

}  // namespace

TEST_CASE("SNLI and MultiNLI as JSON lines") {
  const TextDataset nli =
      read(R"({"gold_label": "entailment", "sentence1": " A dog runs. ", "sentence2": "An animal.")"
           R"(, "annotator_labels": ["entailment"]}
{"gold_label": "-", "sentence1": "x", "sentence2": "y"}
{"gold_label": "contradiction", "sentence1": "A", "sentence2": "B"}
{"gold_label": "neutral", "sentence1": "A", "sentence2": "C"}
)");
  CHECK_EQ(nli.size(), 3);
  CHECK_EQ(nli.skipped(), 1);
  CHECK_EQ(nli.texts(0)[0], " A dog runs. ");  // a prompt may come before it
  CHECK_EQ(nli.texts(0)[1], "An animal.");
  CHECK_EQ(nli.label(0), 0);
  CHECK_EQ(nli.label(1), 2);
  CHECK_EQ(nli.label(2), 1);
  CHECK_EQ(nli.num_labels(), 3);
}

TEST_CASE("SNLI as tab separated text: quotes stay, rows may be longer than the header") {
  const TextDataset nli = read(
      "gold_label\tsentence1\tsentence2\tpairID\tlabel1\n"
      "neutral\tHe said \"hi\tShe said \"ho\"\t1.jpg\tneutral\tneutral\tentailment\n"
      "-\ta\tb\n");
  CHECK_EQ(nli.size(), 1);
  CHECK_EQ(nli.skipped(), 1);
  CHECK_EQ(nli.texts(0)[0], "He said \"hi");
  CHECK_EQ(nli.texts(0)[1], "She said \"ho\"");
}

TEST_CASE("STSB as three CSV fields without a header") {
  const TextDataset sts = read("\"A man, running.\",A man runs.,5.0\nA,B,0\n");
  CHECK_EQ(sts.size(), 2);
  CHECK_EQ(sts.texts(0)[0], "A man, running.");
  CHECK_EQ(sts.score(0), 1.0f);
  CHECK_EQ(sts.score(1), 0.0f);
}

TEST_CASE("STSB as published: tabs, seven fields and sometimes more") {
  const TextDataset sts = read(
      "main-captions\tMSRvid\t2012test\t0001\t2.500\tA \"plane.\tAn air plane.\n"
      "main-news\theadlines\t2015\t0002\t3.75\tOne\tTwo\thttp://a\thttp://b\n");
  CHECK_EQ(sts.size(), 2);
  CHECK_EQ(sts.texts(0)[0], "A \"plane.");
  CHECK_EQ(sts.score(0), 0.5f);
  CHECK_EQ(sts.texts(1)[1], "Two");
  CHECK_EQ(sts.score(1), 0.75f);
}

TEST_CASE("your own tables: pairs with labels, with scores, triplets, single sentences") {
  const TextDataset labelled = read("sentence1,sentence2,label\na,b,1\nc,d,neutral\ne,f,-1\n");
  CHECK(labelled.target() == Target::label);
  CHECK_EQ(labelled.label(0), 1);
  CHECK_EQ(labelled.label(1), 1);
  CHECK_EQ(labelled.skipped(), 1);

  const TextDataset scored = read("{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": 0.5}");
  CHECK(scored.target() == Target::score);
  CHECK_EQ(scored.score(0), 0.5f);

  const TextDataset triplets = read("anchor\tpositive\tnegative\na\tb\tc\n");
  CHECK(triplets.target() == Target::none);
  CHECK_EQ(triplets.texts(0).size(), 3);
  CHECK_EQ(triplets.texts(0)[2], "c");

  CHECK_EQ(read("sentence\nonly one\n").texts(0)[0], "only one");
}

TEST_CASE("labels true and false are the classes 1 and 0") {
  for (const char* text : {"sentence1,sentence2,label\na,b,True\nc,d,False\n",
                           "{\"sentence1\": \"a\", \"sentence2\": \"b\", \"label\": true}\n"
                           "{\"sentence1\": \"c\", \"sentence2\": \"d\", \"label\": false}\n"}) {
    const TextDataset data = read(text);
    CHECK_EQ(data.label(0), 1);
    CHECK_EQ(data.label(1), 0);
  }
  CHECK_THROWS_AS(read("sentence1,sentence2,score\na,b,true\n"), InputError);
}

TEST_CASE("columns renames what a file calls its fields") {
  ReadOptions options;
  options.columns = "premise=sentence1,hypothesis=sentence2,gold=label";
  const TextDataset csv = read("gold,hypothesis,premise\n2,h,p\n", options);
  CHECK_EQ(csv.texts(0)[0], "p");
  CHECK_EQ(csv.texts(0)[1], "h");
  CHECK_EQ(csv.label(0), 2);
  const TextDataset json = read(R"({"gold": 1, "premise": "p", "hypothesis": "h"})", options);
  CHECK_EQ(json.label(0), 1);
  // A renamed column wins over one that has the name already, in every row.
  for (const char* text : {"sentence1,premise,hypothesis,gold\ns,p,h,1\n",
                           "premise,sentence1,hypothesis,gold\np,s,h,1\n",
                           R"({"sentence1": "s", "premise": "p", "hypothesis": "h", "gold": 1})",
                           R"({"premise": "p", "sentence1": "s", "hypothesis": "h", "gold": 1})"})
    CHECK_EQ(read(text, options).texts(0)[0], "p");
  options.columns = "premise=sentence1,none=sentence2";
  CHECK_THROWS_WITH_AS(read("premise,b\nx,y\n", options),
                       "a.csv:1: no column 'none' to use as 'sentence2'", InputError);
  options.columns = "premise";
  CHECK_THROWS_WITH_AS(read("premise,b\nx,y\n", options),
                       "columns: expected NAME_IN_FILE=NAME, found 'premise'", InputError);
}

TEST_CASE("a file may lack columns that others rename, if it makes sense without them") {
  Renames missing;
  ReadOptions options;
  options.columns = "premise=sentence1,hypothesis=sentence2";
  options.missing_columns = &missing;
  // Files that use the target names already.
  for (const char* text : {"sentence1,sentence2,label\na,b,1\n",
                           "{\"sentence1\": \"a\", \"sentence2\": \"b\", \"label\": 1}\n"}) {
    CAPTURE(text);
    const TextDataset own = read(text, options);
    CHECK_EQ(own.texts(0)[0], "a");
    CHECK_EQ(own.texts(0)[1], "b");
    CHECK_EQ(missing.size(), 2);
  }
  const TextDataset half = read("premise,sentence2,label\np,b,1\n", options);
  CHECK_EQ(half.texts(0)[0], "p");
  CHECK(missing == Renames{{"hypothesis", "sentence2"}});
  read("premise,hypothesis,label\np,h,1\n", options);
  CHECK(missing.empty());
  CHECK_THROWS_WITH_AS(read("premise,other,label\np,o,1\n", options),
                       "a.csv:1: no column 'hypothesis' to use as 'sentence2'", InputError);
}

TEST_CASE("a score scale says what the best score is") {
  ReadOptions options;
  options.score_scale = 5;
  const TextDataset sts = read("sentence1,sentence2,score\na,b,5\nc,d,1.25\n", options);
  CHECK_EQ(sts.score(0), 1.0f);
  CHECK_EQ(sts.score(1), 0.25f);
  CHECK_THROWS_WITH_AS(read("sentence1,sentence2,score\na,b,5\n"),
                       "a.csv:2: score 5 is out of range: expected -1 to 1 (score scale 1)",
                       InputError);
  options.score_scale = 0;
  CHECK_THROWS_WITH_AS(read("a,b,1\n", options), "score scale: expected more than 0, found 0",
                       InputError);
}

TEST_CASE("bad rows are named with their line and what was expected") {
  const char* header = "sentence1,sentence2,label\n";
  CHECK_THROWS_WITH_AS(read(std::string(header) + "a,b,0\nc,d\n"),
                       "a.csv:3: expected 3 fields, found 2 (separated by commas)", InputError);
  CHECK_THROWS_WITH_AS(
      read(std::string(header) + "a,b,0.5\n"),
      "a.csv:2: expected entailment, neutral, contradiction, or a class number in 'label', found "
      "'0.5'",
      InputError);
  CHECK_THROWS_AS(read(std::string(header) + "a,b,-2\n"), InputError);
  CHECK_THROWS_AS(read(std::string(header) + "a,b,1e30\n"), InputError);
  ReadOptions options;
  options.num_labels = 3;
  CHECK_THROWS_WITH_AS(read(std::string(header) + "a,b,2\nc,d,3\n", options),
                       "a.csv:3: label 3 is out of range: expected 0 to 2", InputError);
  CHECK_THROWS_WITH_AS(read("a,b,2.5\nc,d,5.5\n"),
                       "a.csv:2: score 5.5 is out of range: expected 0 to 5 (score scale 5)",
                       InputError);
  CHECK_THROWS_WITH_AS(read("a,b,2.5\nc,d,high\n"),
                       "a.csv:2: expected a number in 'score', found 'high'", InputError);
  CHECK_THROWS_AS(read("a,b,2.5\nc,d,nan\n"), InputError);
  CHECK_THROWS_WITH_AS(read("{\"sentence1\": \"a\", \"sentence2\": \"b\"}\n{\"sentence1\": \"a\"}"),
                       "a.csv:2: expected a field 'sentence2'", InputError);
  CHECK_THROWS_WITH_AS(read("{\"sentence1\": \"a\", \"sentence2\": [1]}"),
                       "a.csv:1: expected a string or a number in 'sentence2'", InputError);
  CHECK_THROWS_WITH_AS(read("sentence1,sentence2\nna\xEFve,b\n"),
                       "a.csv:2: expected UTF-8 in 'sentence1'", InputError);
}

TEST_CASE("tables that hold nothing to train on are refused") {
  CHECK_THROWS_WITH_AS(read(""), "a.csv: empty: expected at least one row", InputError);
  CHECK_THROWS_WITH_AS(read("sentence1,sentence2\n"),
                       "a.csv: empty: expected at least one row, found none", InputError);
  CHECK_THROWS_WITH_AS(
      read("sentence1,sentence2,gold_label\na,b,-\n"),
      "a.csv: empty: expected at least one row, found none (1 without a gold label)", InputError);
  CHECK_THROWS_AS(read("anchor,label\na,1\n"), InputError);
  CHECK_THROWS_AS(read("sentence1,sentence2,label,score\na,b,1,1\n"), InputError);
  CHECK_THROWS_AS(read("x,y\n1,2\n"), InputError);
  CHECK_THROWS_AS(read_dataset("/no/such/file.jsonl"), InputError);
}

TEST_CASE("a data set checks what is asked of it") {
  TextDataset pairs("pairs", {"a", "b"}, Target::label);
  pairs.add_row(std::array<std::string_view, 2>{"x", "y"}, 1);
  CHECK_THROWS_AS(pairs.texts(1), Error);
  CHECK_THROWS_AS(pairs.score(0), Error);
  CHECK_THROWS_AS(pairs.add_row(std::array<std::string_view, 1>{"x"}, 1), Error);
  CHECK_THROWS_AS(pairs.add_row(std::array<std::string_view, 2>{"x", "y"}, -1), Error);
  CHECK_EQ(pairs.size(), 1);
}

TEST_CASE("the real files have their published numbers of rows") {
  const auto snli = real_data("snli/snli_dev.jsonl");
  if (!snli.empty()) {
    const TextDataset dev = read_dataset(snli);
    CHECK_EQ(dev.size(), 9'842);
    CHECK_EQ(dev.num_labels(), 3);
  }
  const std::array<std::pair<const char*, std::size_t>, 3> parts{
      {{"train", 5'749}, {"dev", 1'500}, {"test", 1'379}}};
  for (const auto& [part, rows] : parts) {
    const auto path = real_data("stsb/stsb-en-" + std::string(part) + ".csv");
    if (!path.empty()) CHECK_EQ(read_dataset(path).size(), rows);
  }
}
