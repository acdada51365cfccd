#include <doctest/doctest.h>

#include <map>
#include <set>

#include "../words.h"
#include "ringlet/core/base/error.h"
#include "ringlet/train/data/sampler.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// A row for each label.
TextDataset labelled(const std::vector<int>& labels) {
  TextDataset data("rows", {"sentence1", "sentence2"}, Target::label);
  for (const int label : labels)
    data.add_row(std::vector<std::string_view>{"a", "b"}, static_cast<double>(label));
  return data;
}

/// counts[i] rows of label i.
TextDataset with_counts(const std::vector<int>& counts) {
  std::vector<int> labels;
  for (std::size_t label = 0; label < counts.size(); ++label)
    labels.insert(labels.end(), static_cast<std::size_t>(counts[label]), static_cast<int>(label));
  return labelled(labels);
}

SamplerOptions options(std::size_t batch_size) {
  return {.seed = 3, .batch_size = batch_size, .batch_sampler = BatchSampler::group_by_label};
}

}  // namespace

TEST_CASE("group_by_label: every batch has two labels or more, with two rows or more of each") {
  for (const std::vector<int>& counts :
       {std::vector{9, 8, 7}, {2, 2}, {20, 3, 3}, {2, 2, 2, 2, 2, 2, 2}, {30, 30}, {1, 5, 6, 1}})
    for (const std::size_t size : {4u, 6u, 8u}) {
      const TextDataset data = with_counts(counts);
      if (data.size() < size) continue;
      CAPTURE(size);
      CAPTURE(counts.size());
      const Sampler sampler({&data}, options(size));
      for (const std::size_t epoch : {0u, 1u, 2u}) {
        std::set<std::size_t> seen;
        for (std::size_t step = 0; step < sampler.steps_per_epoch(epoch); ++step) {
          const std::vector<std::size_t> rows = sampler.batch(epoch, step).rows;
          CHECK(rows.size() >= 4);
          CHECK(rows.size() <= size);
          std::map<std::int64_t, int> labels;
          for (const std::size_t row : rows) {
            ++labels[data.label(row)];
            CHECK(seen.insert(row).second);  // no row twice in an epoch
          }
          CHECK(labels.size() >= 2);
          for (const auto& [label, of_label] : labels) CHECK(of_label >= 2);
        }
        CHECK(sampler.rows_per_epoch(epoch)[0] == seen.size());
      }
    }
}

TEST_CASE("group_by_label: an epoch has the rows that Sentence Transformers' sampler has") {
  // Pairs: 10, 1 and 1. Two rounds would need two labels: one round of three labels.
  const TextDataset data = with_counts({20, 3, 3});
  const Sampler uneven({&data}, options(4));
  CHECK(uneven.steps_per_epoch() == 1);  // 6 rows: one of 4, and 2 are too few
  // Pairs: 4, 4 and 3: 22 rows.
  const TextDataset even = with_counts({9, 8, 7});
  const Sampler sampler({&even}, options(6));
  CHECK(sampler.steps_per_epoch() == 4);
  CHECK(sampler.rows_per_epoch() == std::vector<std::size_t>{22});
}

TEST_CASE("group_by_label: unshuffled, labels take turns with the next two of their rows") {
  const TextDataset data = labelled({7, 5, 5, 7, 7, 5, 7, 5, 9});
  SamplerOptions unshuffled = options(4);
  unshuffled.shuffle = false;
  const Sampler sampler({&data}, unshuffled);
  REQUIRE(sampler.steps_per_epoch() == 2);
  CHECK(sampler.batch(0, 0).rows == std::vector<std::size_t>{0, 3, 1, 2});
  CHECK(sampler.batch(0, 1).rows == std::vector<std::size_t>{4, 6, 5, 7});
}

TEST_CASE("group_by_label: order depends on the epoch and the seed, and on nothing else") {
  const TextDataset data = with_counts({12, 12, 12});
  const Sampler sampler({&data}, options(6)), again({&data}, options(6));
  CHECK(sampler.batch(0, 0).rows == again.batch(0, 0).rows);
  CHECK(sampler.batch(0, 0).rows != sampler.batch(1, 0).rows);
  SamplerOptions other = options(6);
  other.seed = 4;
  CHECK(Sampler({&data}, other).batch(0, 0).rows != sampler.batch(0, 0).rows);
}

TEST_CASE("group_by_label: data and batches without two labels are refused") {
  const auto refused = [](const TextDataset& data, std::size_t size, const char* line) {
    CHECK_THROWS_WITH_AS(Sampler({&data}, options(size)), line, InputError);
  };
  const char* const batch =
      "batch_sampler group_by_label: expected a batch of 4 rows or more, an even number, found ";
  const TextDataset good = with_counts({9, 9});
  refused(good, 2, str(batch, 2).c_str());
  refused(good, 5, str(batch, 5).c_str());
  refused(with_counts({9, 1}), 4,
          "rows: batch sampler group_by_label: expected two labels with two rows each, found 1");
  refused(*words::scored_dataset(8), 4,
          "scores: batch sampler group_by_label: expected a column of labels");
}
