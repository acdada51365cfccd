// The choice among algorithms by their times, and the rows of the table.
#include "../../bench/product_tuning.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace ringlet::bench;

TEST_SUITE_BEGIN("host");

TEST_CASE("an algorithm is chosen if it is faster by more than the spreads") {
  const auto chosen = [](std::vector<Quartiles> times) { return fastest(times); };
  CHECK(chosen({{9, 10, 11}}) == 0);
  CHECK(chosen({{9, 10, 11}, {7, 8, 8.9}, {6, 7, 8}}) == 2);
  CHECK(chosen({{9, 10, 11}, {7, 8, 9}}) == 0);           // as slow as a fast run of the first
  CHECK(chosen({{9.99, 10, 10}, {9.9, 9.9, 9.9}}) == 0);  // by less than kLeastGain
  CHECK(chosen({{7, 8, 9}, {10, 11, 12}}) == 0);
}

TEST_CASE("quartiles leave a quarter out on either side") {
  const Quartiles of = quartiles({50, 3, 1, 2, 4, 7, 6, 5, -50});
  CHECK(of.low == 2);
  CHECK(of.median == 4);
  CHECK(of.high == 6);
  CHECK(quartiles({3}).low == 3);
}

TEST_CASE("a row of the table is an initialiser without the zeros after the last word") {
  const std::uint64_t words[8] = {66, 0, 0x1f00000000, 0, 0, 0, 0, 0};
  CHECK(table_row("a GPU", 130100, "NN 1x2x3", words) ==
        "{\"a GPU\", 130100, \"NN 1x2x3\", {{0x42, 0x0, 0x1f00000000}}},\n");
}

TEST_CASE("products are timed for every bucket, in the order of use") {
  const auto tokens = tuned_tokens();
  CHECK(tokens.front() == 896);
  CHECK(std::set(tokens.begin(), tokens.end()).size() == tokens.size());
  CHECK(tokens.size() == 24 + 12 + 2);
  const auto place = [&](std::int64_t t) { return std::ranges::find(tokens, t) - tokens.begin(); };
  CHECK(place(1088) < place(1664));
  CHECK(place(98304) < place(512));
  CHECK(place(3072) < std::ssize(tokens));
}

TEST_SUITE_END();
