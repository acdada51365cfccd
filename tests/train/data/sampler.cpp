#include <doctest/doctest.h>
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/train/data/draws.h"
#include "ringlet/train/data/sampler.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < size; ++i) all.push_back(permutation(i));
  return all;
}

}  // namespace

TEST_CASE("permutation: every element once, whatever the size") {
  for (const std::uint64_t size : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 4097}) {
    const std::vector<std::uint64_t> all = order(size, 7);
    const std::set<std::uint64_t> distinct(all.begin(), all.end());
    CHECK_EQ(distinct.size(), size);
    if (size > 0) CHECK_EQ(*distinct.rbegin(), size - 1);
  }
}

TEST_CASE("permutation: a function of its key") {
  CHECK(order(100, 1) == order(100, 1));
  CHECK(order(100, 1) != order(100, 2));
  CHECK_THROWS_AS(Permutation(10, 1)(10), Error);
}

TEST_CASE("permutation: a single position of a huge range costs nothing") {
  const std::uint64_t size = std::uint64_t{1} << 40;
  const Permutation permutation(size, 3);
  CHECK_LT(permutation(size - 1), size);
  CHECK_NE(permutation(0), permutation(1));
}

TEST_CASE("permutation: all orders of a small range are about equally frequent") {
  constexpr int kKeys = 24'000;
  std::map<std::vector<std::uint64_t>, int> counts;
  for (int key = 0; key < kKeys; ++key) ++counts[order(4, static_cast<std::uint64_t>(key))];
  REQUIRE_EQ(counts.size(), 24);
  double chi_squared = 0;
  for (const auto& [unused, count] : counts) {
    chi_squared += (count - kKeys / 24.0) * (count - kKeys / 24.0) / (kKeys / 24.0);
  }
  CHECK_LT(chi_squared, 49.73);  // 23 degrees of freedom: exceeded by chance once in 1,000
}

TEST_CASE("permutation: where an element goes is even over a large range") {
  constexpr std::uint64_t kSize = 1000;
  constexpr int kKeys = 10'000;
  std::vector<int> counts(10);
  for (std::uint64_t key = 0; key < kKeys; ++key) ++counts[Permutation(kSize, key)(1) / 100];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK_LT(chi_squared, 27.88);  // 9 degrees of freedom: once in 1,000
}

namespace {

TextDataset dataset_of(std::size_t rows, std::size_t distinct = 1'000'000) {
  TextDataset dataset("rows", {"anchor", "positive"}, Target::none);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string anchor = str("a", i % distinct);
    const std::string positive = str("p", i);
    dataset.add_row(std::array<std::string_view, 2>{anchor, positive});
  }
  return dataset;
}

std::vector<std::size_t> all_rows(const Sampler& sampler, std::size_t epoch) {
  std::vector<std::size_t> rows;
  for (std::size_t step = 0; step < sampler.steps_per_epoch(epoch); ++step) {
    const BatchRows batch = sampler.batch(epoch, step);
    rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
  }
  return rows;
}

bool each_once(std::vector<std::size_t> rows, std::size_t size) {
  std::sort(rows.begin(), rows.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != i) return false;
  }
  return rows.size() == size;
}

}  // namespace

TEST_CASE("sampler: an epoch is every row once, the last batch what is left") {
  const TextDataset data = dataset_of(103);
  const Sampler sampler({&data}, {.seed = 1, .batch_size = 10});
  CHECK_EQ(sampler.steps_per_epoch(), 11);
  CHECK(each_once(all_rows(sampler, 0), 103));
  std::size_t smallest = 10;
  for (std::size_t step = 0; step < 11; ++step) {
    smallest = std::min(smallest, sampler.batch(0, step).rows.size());
  }
  CHECK_EQ(smallest, 3);
  CHECK_THROWS_AS(sampler.batch(0, 11), Error);
}

TEST_CASE("sampler: any step without those before it, the same in every process") {
  const TextDataset data = dataset_of(1000);
  const Sampler first({&data}, {.seed = 5, .batch_size = 32});
  const Sampler resumed({&data}, {.seed = 5, .batch_size = 32});
  CHECK(resumed.batch(2, 17).rows == first.batch(2, 17).rows);
  CHECK(first.batch(2, 17).rows != first.batch(3, 17).rows);
  const Sampler other({&data}, {.seed = 6, .batch_size = 32});
  CHECK(other.batch(2, 17).rows != first.batch(2, 17).rows);
}

TEST_CASE("sampler: without shuffling the file's order") {
  const TextDataset data = dataset_of(5);
  const Sampler sampler({&data}, {.batch_size = 2, .shuffle = false});
  CHECK(all_rows(sampler, 0) == std::vector<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("sampler: round robin takes turns and stops with the smallest data set") {
  const TextDataset small = dataset_of(20);
  const TextDataset large = dataset_of(1000);
  const Sampler sampler({&large, &small, &large},
                        {.batch_size = 8, .dealing = Dealing::round_robin});
  CHECK_EQ(sampler.steps_per_epoch(), 3 * 3);  // ceil(20 / 8) turns
  std::vector<std::size_t> rows_of_small;
  for (std::size_t step = 0; step < 9; ++step) {
    const BatchRows batch = sampler.batch(0, step);
    CHECK_EQ(batch.dataset, step % 3);
    if (batch.dataset == 1) {
      rows_of_small.insert(rows_of_small.end(), batch.rows.begin(), batch.rows.end());
    }
  }
  CHECK(each_once(rows_of_small, 20));
  CHECK(sampler.batch(0, 0).rows != sampler.batch(0, 2).rows);  // independent streams
}

TEST_CASE("sampler: the rows that an epoch uses are those of its batches") {
  const TextDataset small = dataset_of(20);
  const TextDataset large = dataset_of(101);
  const TextDataset repeated = dataset_of(60, 5);  // 12 rows of each anchor
  for (const Dealing dealing : {Dealing::round_robin, Dealing::proportional})
    for (const BatchSampler kind : {BatchSampler::batch_sampler, BatchSampler::no_duplicates}) {
      const Sampler sampler({&large, &repeated, &small},
                            {.batch_size = 8, .dealing = dealing, .batch_sampler = kind});
      std::vector<std::size_t> rows(3);
      for (std::size_t step = 0; step < sampler.steps_per_epoch(1); ++step) {
        const BatchRows batch = sampler.batch(1, step);
        rows[batch.dataset] += batch.rows.size();
      }
      CHECK(sampler.rows_per_epoch(1) == rows);
      CHECK_EQ(rows[2], 20);
      CHECK_EQ(rows[0], dealing == Dealing::round_robin ? 24 : 101);
    }
}

TEST_CASE("sampler: the reference's 135 steps") {
  const TextDataset multinli = dataset_of(392'702);
  const TextDataset snli = dataset_of(549'367);
  const TextDataset stsb = dataset_of(5'749);
  const Sampler sampler({&multinli, &snli, &stsb},
                        {.batch_size = 128, .dealing = Dealing::round_robin});
  CHECK_EQ(sampler.steps_per_epoch(), 135);
}

TEST_CASE("sampler: proportional deals every batch of every data set once, mixed") {
  const TextDataset small = dataset_of(20);
  const TextDataset large = dataset_of(101);
  const Sampler sampler({&small, &large}, {.seed = 2, .batch_size = 10});
  CHECK_EQ(sampler.steps_per_epoch(), 2 + 11);
  std::array<std::vector<std::size_t>, 2> rows;
  std::array<std::string, 2> dealt;
  for (std::size_t step = 0; step < 13; ++step) {
    const BatchRows batch = sampler.batch(0, step);
    rows[batch.dataset].insert(rows[batch.dataset].end(), batch.rows.begin(), batch.rows.end());
    for (std::size_t epoch : {0, 1})
      dealt[epoch] += std::to_string(sampler.batch(epoch, step).dataset);
  }
  CHECK(each_once(rows[0], 20));
  CHECK(each_once(rows[1], 101));
  CHECK_NE(dealt[0], dealt[1]);
}

TEST_CASE("sampler: no_duplicates keeps equal texts apart and loses no row") {
  const TextDataset data = dataset_of(300, 40);  // each anchor in 7 or 8 rows
  const Sampler sampler(
      {&data}, {.seed = 3, .batch_size = 16, .batch_sampler = BatchSampler::no_duplicates});
  for (const std::size_t epoch : {0, 1}) {
    CHECK(each_once(all_rows(sampler, epoch), 300));
    CHECK_GE(sampler.steps_per_epoch(epoch), 19);
    for (std::size_t step = 0; step < sampler.steps_per_epoch(epoch); ++step) {
      const BatchRows batch = sampler.batch(epoch, step);
      CHECK_LE(batch.rows.size(), 16);
      std::set<std::string_view> texts;
      for (const std::size_t row : batch.rows) {
        for (const std::string_view text : data.texts(row)) CHECK(texts.insert(text).second);
      }
    }
  }
  const Sampler resumed(
      {&data}, {.seed = 3, .batch_size = 16, .batch_sampler = BatchSampler::no_duplicates});
  CHECK(resumed.batch(1, 4).rows == sampler.batch(1, 4).rows);
}

TEST_CASE("sampler: ranks in several epochs get the batches of a sampler of one epoch") {
  const TextDataset data = dataset_of(300, 40);
  const SamplerOptions options{.batch_size = 16, .batch_sampler = BatchSampler::no_duplicates};
  const Sampler shared({&data}, options);
  for (std::size_t step = 0; step < 19; ++step)
    for (const std::size_t epoch : {0, 1, 2})
      CHECK(shared.batch(epoch, step).rows == Sampler({&data}, options).batch(epoch, step).rows);
}

TEST_CASE("sampler: one anchor in every row makes batches of one") {
  const TextDataset data = dataset_of(50, 1);
  const Sampler sampler({&data}, {.batch_size = 8, .batch_sampler = BatchSampler::no_duplicates});
  CHECK_EQ(sampler.steps_per_epoch(), 50);
}

TEST_CASE("sampler: distinct rows are packed as tightly as without no_duplicates") {
  const TextDataset data = dataset_of(100);
  const Sampler sampler({&data}, {.batch_size = 8, .batch_sampler = BatchSampler::no_duplicates});
  CHECK_EQ(sampler.steps_per_epoch(), 13);
}

TEST_CASE("sampler: what cannot be sampled is refused") {
  const TextDataset data = dataset_of(10);
  const TextDataset empty = dataset_of(0);
  CHECK_THROWS_WITH_AS(Sampler({&data}, {.batch_size = 11}),
                       "batch_size: expected at most the 10 rows of rows, found 11", InputError);
  CHECK_THROWS_AS(Sampler({&data}, {.batch_size = 0}), InputError);
  CHECK_THROWS_AS(Sampler({&data, &empty}, {.batch_size = 1}), InputError);
  CHECK_THROWS_AS(Sampler({}, {.batch_size = 1}), InputError);
}
