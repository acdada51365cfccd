#include "ringlet/train/data/readers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>

#include "ringlet/tests/files.h"
#include "ringlet/train/data/lines.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

TextDataset read(std::string_view text, const ReadOptions& options = {},
                 const std::string& name = "a.csv") {
  return read_dataset(LineReader(bytes_of(text), name), options);
}

std::size_t skipped(const TextDataset& dataset) {
  std::size_t rows = 0;
  for (const auto& [count, why] : dataset.report().skipped) rows += count;
  return rows;
}

void refuse(std::string_view text, const std::string& message, const ReadOptions& options = {}) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read(text, options), message.c_str(), InputError);
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
  CHECK_EQ(skipped(nli), 1);
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
  CHECK_EQ(skipped(nli), 1);
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
  const TextDataset labelled = read("sentence1,sentence2,label\na,b,1\nc,d,neutral\n");
  CHECK(labelled.target() == Target::label);
  CHECK_EQ(labelled.label(0), 1);
  CHECK_EQ(labelled.label(1), 1);

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
  options.columns = "b=sentence1,b=sentence2";
  CHECK_THROWS_WITH_AS(read("premise,b\nx,y\n", options), "columns: renames 'b' twice", InputError);
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
  CHECK_THROWS_WITH_AS(read("q1 0 d1 1\nq2 0 d4 1\n"),
                       doctest::Contains("a.csv:1: relevant pairs of TREC, without a header"),
                       InputError);
  CHECK_THROWS_WITH_AS(read("a,b,1\n", options), "score_scale: expected more than 0, found 0",
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

TEST_CASE("numbered columns are taken in order, and a gap is refused") {
  const auto columns = [](const std::string& header) {
    const auto commas = static_cast<std::size_t>(std::ranges::count(header, ','));
    std::string row = "a";
    for (std::size_t i = 0; i < commas; ++i) row += ",a";
    return read(header + "\n" + row + "\n").columns();
  };
  using Names = std::vector<std::string>;
  CHECK(columns("anchor,positive,negative2,negative1") ==
        Names{"anchor", "positive", "negative1", "negative2"});
  CHECK(columns("anchor,positive,negative_0,negative_1") ==
        Names{"anchor", "positive", "negative_0", "negative_1"});
  CHECK(columns("negative,anchor,positive,negative_1,x") ==
        Names{"anchor", "positive", "negative", "negative_1"});
  CHECK(columns("sentence3,sentence1,sentence2,sentence1_parse") ==
        Names{"sentence1", "sentence2", "sentence3"});
  CHECK(columns("sentence_0,sentence1,sentence2") == Names{"sentence_0", "sentence1", "sentence2"});
  std::string ten = "anchor,positive";
  for (int i = 1; i <= 10; ++i) ten += str(",negative_", i);
  CHECK_EQ(columns(ten).back(), "negative_10");  // by number, not by text

  refuse("anchor,positive,negative,negative_2\na,b,c,d\n",
         "a.csv:1: expected a column with number 1 before 'negative_2'");
  refuse("anchor,positive,negative_1,negative_3\na,b,c,d\n",
         "a.csv:1: expected a column with number 2 before 'negative_3'");
  refuse("sentence1,sentence2,sentence4\na,b,c\n",
         "a.csv:1: expected a column with number 3 before 'sentence4'");
  refuse("anchor,positive,negative_1,negative1\na,b,c,d\n",
         "a.csv:1: columns 'negative1' and 'negative_1' have one number");
}

TEST_CASE("two columns of one name are refused") {
  refuse("sentence1,sentence2,sentence1,score\na,b,c,0.5\n", "a.csv:1: two columns 'sentence1'");
  refuse("sentence1,sentence2,x,x\na,b,c,d\n", "a.csv:1: two columns 'x'");
  const ReadOptions options{.columns = "p=sentence1,q=sentence1"};
  refuse("p,q,sentence2\na,b,c\n", "a.csv:1: two columns 'sentence1', from 'p' and 'q'", options);
  refuse(R"({"p": "a", "q": "b", "sentence2": "c"})",
         "a.csv:1: two columns 'sentence1', from 'p' and 'q'", options);
  CHECK_EQ(read(",sentence,\n0,a,\n").size(), 1);        // names of nothing
  CHECK_EQ(read("same,same,2\nother,b,1\n").size(), 2);  // data, no header
}

TEST_CASE("a key that only later objects have is refused where it would have been used") {
  const std::string pair = R"({"sentence1": "a", "sentence2": "b")";
  for (const char* key : {"score", "label", "gold_label", "split", "sentence3", "anchor"}) {
    const std::string later = pair + ", \"" + key + "\": \"1\"}\n";
    refuse(pair + "}\n" + later, str("a.csv:2: the first row has no '", key,
                                     "': expected the same columns in every row"));
  }
  const std::string other = "{\"anchor\": \"a\", \"positive\": \"b\"";
  refuse(other + "}\n" + other + ", \"negative_1\": \"c\"}\n",
         "a.csv:2: the first row has no 'negative_1': expected the same columns in every row");
  Renames missing;
  const ReadOptions renamed{.columns = "gold=label", .missing_columns = &missing};
  refuse(pair + "}\n" + pair + ", \"gold\": 1}\n",
         "a.csv:2: the first row has no 'gold': expected the same columns in every row", renamed);
  const TextDataset more = read(pair + "}\n" + pair + ", \"note\": [1], \"score\": null}\n");
  CHECK_EQ(more.size(), 2);
  CHECK(more.report().unused == std::vector<std::string>{"note"});
}

TEST_CASE("gold_label alone may have no label") {
  const std::string rows = "\na,b,1\nc,d,-1\n";
  CHECK_EQ(read("sentence1,sentence2,gold_label" + rows).size(), 1);
  refuse(
      "sentence1,sentence2,label" + rows,
      "a.csv:3: expected entailment, neutral, contradiction, or a class number in 'label', found "
      "'-1'; only a column 'gold_label' may have it for no label");
  CHECK_THROWS_AS(read("sentence,label\na,-\n"), InputError);
  CHECK_THROWS_AS(read("sentence1,sentence2,gold" + rows, {.columns = "gold=label"}), InputError);
}

TEST_CASE("a file of several splits needs the choice of one") {
  const std::string text =
      "split\tgenre\tscore\tsentence1\tsentence2\n"
      "train\tx\t4.5\ta\tb\ntrain\tx\t0.5\tc\td\ndev\tx\t3\te\tf\ntest\tx\t-1\tg\th\n";
  const TextDataset train = read(text, {.split = {"train"}});
  CHECK_EQ(train.size(), 2);
  CHECK_EQ(train.score(0), 0.9f);
  CHECK_EQ(read(text, {.split = {"dev"}}).texts(0)[0], "e");
  const std::string splits =
      "a.csv: expected --split with one of its splits 'dev' (1 row), 'test' (1 row), 'train' (2 "
      "rows)";
  refuse(text, splits);
  refuse(text, splits + ", found 'Train'", {.split = {"Train"}});
  refuse("sentence\na\n", "a.csv: no column 'split' for --split dev", {.split = {"dev"}});
  CHECK_EQ(read("sentence\na\n", {.split = {"dev", /*shared=*/true}}).size(), 1);
  refuse(R"({"sentence": "a", "split": "x"})",
         "a.csv: expected --split with one of its splits 'x' (1 row)");
  CHECK_EQ(read(text, {.columns = "split=fold", .score_scale = 5}).size(), 4);
}

TEST_CASE("scores between 0 and 1 are refused where a scale of 5 would be assumed") {
  const std::string plain = "a,b,1\nc,d,0.5\n",
                    genre = "genre,sentence1,sentence2,score\nx,a,b,1\n";
  const std::string refused = "a.csv: the scores lie in 0 to 1, but with ",
                    scale = " a scale of 5 is assumed: expected --score-scale 1 or 5";
  refuse(plain, refused + "no header" + scale);
  refuse(genre, refused + "a column 'genre'" + scale);
  CHECK_EQ(read(plain, {.score_scale = 1}).score(1), 0.5f);
  CHECK_EQ(read(genre, {.score_scale = 5}).score(0), 0.2f);
  CHECK_EQ(read(plain + "e,f,1.5\n").score(0), 0.2f);
  CHECK_EQ(read("a,b,10\n", {.score_scale = 10}).score(0), 1.0f);
}

TEST_CASE("the report has the rows used and skipped, the columns, the scale and empty texts") {
  CHECK_EQ(
      describe(read("a,b,5\n ,d,1\n").report()),
      "a.csv: 2 rows; columns sentence1, sentence2, score; score scale 5, assumed (no header); "
      "1 empty text");
  CHECK_EQ(describe(read("id,premise,sentence2,gold_label,sentence1\n1,a,b,0,x\n2,c,d,-,x\n",
                         {.columns = "premise=sentence1"})
                        .report()),
           "a.csv: 1 row, 1 skipped (no gold label); columns premise as sentence1, sentence2, "
           "gold_label; without use: id, sentence1");
  CHECK_EQ(
      describe(
          read("sentence1,sentence2,score,split\na,b,1,x\nc,d,1,y\n", {.split = {"y"}}).report()),
      "a.csv: 1 row of split 'y', 1 skipped (other splits); columns sentence1, sentence2, "
      "score, split; score scale 1");
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
