// Exercises of lesson 20: tiles in shared memory. They need no nvcc.
#include <algorithm>
#include <map>
#include <set>

#include "ringlet.h"

// 1. The numbers that a product of two (n, n) matrices reads from global memory. A block makes
// `tile` x `tile` results from tiles in shared memory; tile divides n.
std::int64_t numbers_read(std::int64_t n, std::int64_t tile) {
  // gap: each of the (n / tile)^2 blocks reads n / tile tiles of a, and as many of b.
  return 2 * n * n * n / tile;
  // end: return n + tile;
}

// 2. Shared memory has 32 banks: word w is in bank w modulo 32. A bank gives one word a pass; all
// threads that read this word get it. The passes that a warp's read of these words takes.
std::size_t passes_of(const std::vector<int>& words) {
  // gap: the distinct words of each bank; the fullest bank decides.
  std::map<int, std::set<int>> banks;
  std::size_t most = 0;
  for (const int word : words) {
    banks[word % 32].insert(word);
    most = std::max(most, banks[word % 32].size());
  }
  return most;
  // end: return words.size();
}

// 3. c = a b by tiles, with matrices (n, n) in rows. read_a(i, j) and read_b(i, j) read global
// memory. Each tile of results reads an element that it needs once.
std::vector<double> tiled_product(int n, int tile, const std::function<double(int, int)>& read_a,
                                  const std::function<double(int, int)>& read_b) {
  std::vector<double> c(static_cast<std::size_t>(n * n));
  std::vector<double> a(static_cast<std::size_t>(tile * tile)), b = a;  // "shared memory"
  for (int row = 0; row < n; row += tile)
    for (int column = 0; column < n; column += tile)  // a tile of results: a block
      for (int k = 0; k < n; k += tile) {
        // gap: fill both tiles, then add their product to this tile of c.
        for (int i = 0; i < tile; ++i)
          for (int j = 0; j < tile; ++j) {
            a.at(i * tile + j) = read_a(row + i, k + j);
            b.at(i * tile + j) = read_b(k + i, column + j);
          }
        for (int i = 0; i < tile; ++i)
          for (int j = 0; j < tile; ++j)
            for (int m = 0; m < tile; ++m)
              c.at((row + i) * n + column + j) += a.at(i * tile + m) * b.at(m * tile + j);
        // end: c.at(0) += read_a(row, k) + read_b(k, column) + a.at(0) + b.at(0);
      }
  return c;
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the numbers read") {
  expect("n = 64, tiles of 1", numbers_read(64, 1), 524288, "each result reads a row and a column");
  expect("n = 64, tiles of 16", numbers_read(64, 16), 32768, "a 16th of it");
}

EXERCISE(2, "passes over the banks") {
  std::vector<int> row, column, padded, pairs;
  for (int t = 0; t < 32; ++t) {
    row.push_back(t);
    column.push_back(32 * t);
    padded.push_back(33 * t);
    pairs.push_back(2 * t);
  }
  expect("32 adjacent words", passes_of(row), 1, "each word is in another bank");
  expect("a column of a tile of 32 x 32", passes_of(column), 32, "all words are in bank 0");
  expect("a column of a tile with rows of 33", passes_of(padded), 1, "the rows are shifted");
  expect("every second word", passes_of(pairs), 2, "16 banks with two words each");
  expect("no word", passes_of({}), 0, "nothing is read");
  expect("one word for all threads", passes_of(std::vector<int>(32, 5)), 1, "all get it at once");
}

EXERCISE(3, "a product by tiles") {
  for (const auto& [n, tile] : {std::pair{4, 2}, {6, 3}, {6, 1}, {3, 3}}) {
    int reads = 0;
    const auto a = [&reads](int i, int j) { return ++reads, i + 10.0 * j; };
    const auto b = [&reads](int i, int j) { return ++reads, 2.0 * i - j + 1; };
    const std::vector<double> c = tiled_product(n, tile, a, b);
    const std::string where = ringlet::str(" of n = ", n, " by tiles of ", tile);
    expect("the reads" + where, reads, 2 * n * n * n / tile, "a tile is filled once for each k");
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int k = 0; k < n; ++k) sum += a(i, k) * b(k, j);
        expect(ringlet::str("element (", i, ", ", j, ")", where),
               c[static_cast<std::size_t>(i * n + j)], sum,
               "c (i, j) is the sum over m of a (i, m) b (m, j)");
      }
  }
}
