// Exercises of lesson 19: a kernel. They count what a warp of 32 threads does; they need no nvcc.
#include <algorithm>
#include <map>
#include <set>

#include "ringlet.h"

// 1. The value that thread t reads as its i-th, so that the threads of a warp read neighbours. The
// block has `threads` threads and begins at value `begin`.
int coalesced(int begin, int threads, int t, int i) {
  // gap: in each round i the block reads `threads` adjacent values.
  return begin + i * threads + t;
  // end: return begin * threads * t * i;
}

// 2. The sectors of 32 bytes that must move if the threads of a warp read 4 bytes at these
// addresses.
std::size_t sectors_of(const std::vector<int>& addresses) {
  // gap: each sector moves once; a std::set has each number once. Addresses are multiples of 4.
  std::set<int> sectors;
  for (const int address : addresses) sectors.insert(address / 32);
  return sectors.size();
  // end: return addresses.size();
}

// 3. A tree's sum has a step for `half` = threads / 2, threads / 4, …, 1. There each thread t <
// half adds parts[t + half] to parts[t]. Part p is always written by thread p. A step needs a
// barrier before it if a thread reads a part that a thread of another warp has written. Returns
// those steps, by `half`.
std::vector<int> steps_with_barrier(int threads, int warp) {
  std::vector<int> steps;
  // gap: thread t is in warp t / warp.
  for (int half = threads / 2; half > 0; half /= 2) {
    bool needed = false;
    for (int t = 0; t < half; ++t) needed = needed || (t + half) / warp != t / warp;
    if (needed) steps.push_back(half);
  }
  // end: steps.push_back(threads / warp);
  return steps;
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "coalesced reads") {
  expect("value 0 of thread 5 of 128", coalesced(0, 128, 5, 0), 5, "neighbours in round 0");
  expect("value 2 of thread 5 of 128", coalesced(0, 128, 5, 2), 261, "two rounds of 128 before");
  expect("value 1 of thread 0, a block at 1000", coalesced(1000, 64, 0, 1), 1064,
         "begin comes first");
}

EXERCISE(2, "sectors") {
  std::vector<int> adjacent, runs, shifted;
  for (int t = 0; t < 32; ++t) {
    adjacent.push_back(4 * t);
    runs.push_back(32 * t);
    shifted.push_back(4 * t + 16);
  }
  expect("32 adjacent words", sectors_of(adjacent), 4, "128 bytes in sectors of 32");
  expect("a word of each run of 8", sectors_of(runs), 32, "each word is in a sector of its own");
  expect("32 adjacent words from byte 16 on", sectors_of(shifted), 5,
         "the first sector is half used");
  expect("one word for all threads", sectors_of(std::vector<int>(32, 64)), 1, "it moves once");
  expect("bytes 60 and 64", sectors_of({60, 64}), 2, "sector 2 begins at byte 64");
}

EXERCISE(3, "the barriers of a tree") {
  expect("128 threads, warps of 32", steps_with_barrier(128, 32), {64, 32},
         "from half = 16 on, one warp reads its own parts");
  expect("16 threads, warps of 4", steps_with_barrier(16, 4), {8, 4}, "half = 2 is in one warp");
  expect("32 threads, a warp of 32", steps_with_barrier(32, 32), {}, "there is one warp");
  expect("8 threads, warps of 3", steps_with_barrier(8, 3), {4, 2},
         "threads 1 and 3 are in different warps");
  expect("8 threads, warps of 1", steps_with_barrier(8, 1), {4, 2, 1}, "each thread is a warp");
}
