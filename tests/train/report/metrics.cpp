#include "ringlet/train/report/metrics.h"

#include <doctest/doctest.h>

#include <limits>

#include "../../files.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

using namespace ringlet;
using namespace ringlet::train;
using namespace std::string_literals;

TEST_CASE("metrics are one JSON object a line") {
  TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsWriter writer(path, 0);
  writer.write(10, 0.5, {{"loss", 1.25}, {"pairs", 320}});
  writer.write(20, 1, {{"spearman", std::numeric_limits<double>::quiet_NaN()}});
  CHECK(read_file(path) ==
        "{\"step\":10,\"epoch\":0.5,\"loss\":1.25,\"pairs\":320}\n"
        "{\"step\":20,\"epoch\":1,\"spearman\":null}\n");
}

TEST_CASE("a resumed run keeps the lines up to its step, whole ones only") {
  TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_file(path, "{\"step\":1}\n{\"step\":2}\nrubbish\n{\"step\":3}\n{\"step\":2,\"los");
  MetricsWriter(path, 2).write(3, 1, {});
  CHECK(read_file(path) == "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"epoch\":1}\n");
  MetricsWriter fresh(path, 0);
  CHECK(read_file(path).empty());
}

TEST_CASE("a line of metrics with a value of the wrong type is named, or dropped on resuming") {
  TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string good = "{\"step\":1,\"epoch\":0.5,\"loss\":null}\n";
  for (const char* bad : {"{\"step\":\"2\",\"epoch\":1}", "{\"step\":2.5,\"epoch\":1}",
                          "{\"step\":2,\"epoch\":[]}", "{\"step\":2}", "3"}) {
    write_file(path, good + bad + "\n");
    CHECK_THROWS_WITH_AS(
        read_metrics(path),
        str(path.string(), ":2: expected an object with a step and an epoch").c_str(), InputError);
  }
  write_file(path, good + "{\"step\":2,\"epoch\":1,\"loss\":\"x\"}\n");
  CHECK_THROWS_WITH_AS(read_metrics(path),
                       str(path.string(), ":2: expected a number in 'loss', found \"x\"").c_str(),
                       InputError);
  write_file(path, good + "{\"step\":\"1\"}\n");
  MetricsWriter(path, 2);
  CHECK(read_file(path) == good);
  CHECK(read_metrics(path).at(0).values.at(0) == std::pair("loss"s, std::optional<double>()));
}

TEST_CASE("tables get a line each time, and a header once") {
  TemporaryFolder folder;
  const auto path = folder / "eval" / "table.csv";
  append_csv(path, "epoch,steps,score", {0.5, 10, 0.1});
  append_csv(path, "epoch,steps,score", {1, 20, 1.0 / 3});
  CHECK(read_file(path) == "epoch,steps,score\n0.5,10,0.1\n1,20,0.3333333333333333\n");
  write_file(folder / "file", "");
  CHECK_THROWS_AS(append_csv(folder / "file" / "table.csv", "epoch", {1}), InputError);
}

TEST_CASE("a resumed run keeps the lines of a table up to its step, whole ones only") {
  TemporaryFolder folder;
  const auto path = folder / "table.csv";
  write_file(path, "epoch,steps,score\n0.5,10,0.1\n1,20,0.2\n1.5,30,0.3\n2,1");
  trim_csv(path, 20);
  CHECK(read_file(path) == "epoch,steps,score\n0.5,10,0.1\n1,20,0.2\n");
  trim_csv(path, 0);
  CHECK(read_file(path) == "epoch,steps,score\n");
  write_file(path, "name,value\na,1\nb");  // a file of another program
  trim_csv(path, 0);
  CHECK(read_file(path) == "name,value\na,1\nb");
}

TEST_CASE("a metric is found by name") {
  const Metrics metrics{{"loss", 0.5}, {"accuracy", 0.75}};
  CHECK(find_metric(metrics, "accuracy") == 0.75);
  CHECK_FALSE(find_metric(metrics, "recall").has_value());
}

TEST_CASE("a full disk and a missing folder are refused by name") {
  TemporaryFolder folder;
  CHECK_THROWS_AS(MetricsWriter(folder / "nowhere" / "metrics.jsonl", 0), InputError);
  MetricsWriter writer(folder / "metrics.jsonl", 0);
  const FullDisk full(0);
  CHECK_THROWS_WITH_AS(
      writer.write(1, 1, {{"loss", 1}}),
      str((folder / "metrics.jsonl").string(), ": cannot write: File too large").c_str(),
      InputError);
}
