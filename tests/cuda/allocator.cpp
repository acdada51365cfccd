#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "ringlet/cuda/caching_allocator.h"

using namespace ringlet;
using cuda::CachingAllocator;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
const int first_stream = 0, second_stream = 0;  // their addresses identify streams

/// Host memory that emulates a device with `capacity` bytes.
class HostSegments final : public cuda::SegmentSource {
 public:
  explicit HostSegments(std::size_t capacity) : capacity_(capacity) {}
  ~HostSegments() override {
    for (const auto& [data, nbytes] : segments_) std::free(data);
  }
  std::byte* take(std::size_t nbytes) override {
    ++asked;
    if (used + nbytes > capacity_) return nullptr;
    used += nbytes;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(512, (nbytes + 511) / 512 * 512));
    segments_[data] = nbytes;
    return data;
  }
  void give_back(std::byte* segment) override {
    const auto found = segments_.find(segment);
    REQUIRE(found != segments_.end());  // a whole segment, freed once
    used -= found->second;
    segments_.erase(found);
    std::free(segment);
  }
  std::string situation() const override { return str(capacity_ - used, " are free"); }

  std::size_t used = 0;
  int asked = 0;

 private:
  std::size_t capacity_;
  std::map<std::byte*, std::size_t> segments_;
};

/// An allocator of cuda:0 over `capacity` bytes.
template <std::size_t capacity, bool exact = false>
struct Allocating {
  HostSegments source{capacity};
  CachingAllocator allocator{{DeviceType::cuda, 0}, source, exact};

  MemoryBlock allocate(std::size_t nbytes) { return allocator.allocate(nbytes, &first_stream); }
  std::string message_of(std::size_t nbytes) {
    try {
      allocate(nbytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};
using Exact = Allocating<64 * kMebibyte, true>;

}  // namespace

TEST_CASE_FIXTURE(Allocating<64 * kMebibyte>,
                  "a released block is used again, by its own stream alone") {
  const MemoryBlock a = allocate(1000);
  CHECK(a.nbytes == 1024);
  CHECK(reinterpret_cast<std::uintptr_t>(a.data) % CachingAllocator::kAlignment == 0);
  CHECK(allocator.stream_of(a) == &first_stream);
  allocator.release(a);
  const MemoryBlock other = allocator.allocate(1000, &second_stream);
  CHECK(other.data != a.data);
  const MemoryBlock again = allocate(1024);
  CHECK(again.data == a.data);
  CHECK(source.asked == 2);
  allocator.release(again);
  allocator.release(other);
  CHECK(allocator.stats().allocated == 0);
}

TEST_CASE_FIXTURE(Allocating<64 * kMebibyte>, "blocks of nothing have an address of their own") {
  const MemoryBlock a = allocate(0), b = allocate(0);
  CHECK(a.data != b.data);
  CHECK(a.nbytes == CachingAllocator::kAlignment);
}

TEST_CASE_FIXTURE(Allocating<256 * kMebibyte>,
                  "segments by size: small, middle, large; a step that repeats asks for nothing") {
  std::size_t reserved = 0;
  for (int step = 0; step < 3; ++step) {
    std::vector<MemoryBlock> blocks;
    for (const std::size_t nbytes : {std::size_t{512}, kMebibyte, kMebibyte + 1, 10 * kMebibyte,
                                     10 * kMebibyte + 1, 33 * kMebibyte})
      blocks.push_back(allocate(nbytes));
    // 2 for both small ones (1 MiB fits next to 512 bytes), 20 for both middle ones, 12 and 34.
    CHECK(allocator.stats().reserved == 68 * kMebibyte);
    if (step == 0) reserved = allocator.stats().reserved;
    CHECK(allocator.stats().reserved == reserved);
    CHECK(source.asked == 4);
    for (const MemoryBlock& block : blocks) allocator.release(block);
  }
  CHECK(allocator.stats().system_allocations == 4);
  CHECK(allocator.stats().allocations == 18);
}

TEST_CASE_FIXTURE(Allocating<64 * kMebibyte>,
                  "released neighbours become one, so a whole segment can be freed") {
  std::vector<MemoryBlock> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(kMebibyte / 2));
  CHECK(source.asked == 1);
  for (const int i : {1, 3, 2}) allocator.release(blocks[static_cast<std::size_t>(i)]);
  allocator.trim();
  CHECK(source.used == 2 * kMebibyte);  // the first block is in use
  const MemoryBlock joined = allocate(kMebibyte);
  CHECK(joined.data == blocks[1].data);
  allocator.release(joined);
  allocator.release(blocks[0]);
  allocator.trim();
  CHECK(source.used == 0);
  CHECK(allocator.stats().reserved == 0);
}

TEST_CASE_FIXTURE(Exact, "exact blocks are as long as was asked for, and go back at once") {
  const MemoryBlock a = allocate(1536), b = allocate(0);
  CHECK(a.nbytes == 1536);
  CHECK(source.used == 1537);
  allocator.release(a);
  CHECK(source.used == 1);
  allocator.release(b);
  CHECK(source.used == 0);
}

TEST_CASE_FIXTURE(Allocating<24 * kMebibyte>,
                  "the limit, and memory that ends, are errors that say what was needed") {
  const MemoryBlock a = allocate(12 * kMebibyte);
  CHECK(message_of(16 * kMebibyte) ==
        "[allocate] 16777216 bytes on cuda:0: out of memory, 12582912 are in use and 12582912 held "
        "by this process; 12582912 are free");
  allocator.release(a);
  // Cached memory is freed before an allocation fails.
  const MemoryBlock b = allocate(16 * kMebibyte);
  CHECK(source.used == 16 * kMebibyte);
  allocator.set_limit(17 * kMebibyte);
  CHECK(message_of(2 * kMebibyte) ==
        "[allocate] 2097152 bytes on cuda:0: 16777216 are in use, the limit is 17825792");
  CHECK(allocator.stats().limit == 17 * kMebibyte);
  allocator.release(b);
  CHECK(message_of(SIZE_MAX).find("more than there can be") != std::string::npos);
}

TEST_CASE_FIXTURE(Allocating<64 * kMebibyte>, "peaks, and sidecars beside them") {
  const MemoryBlock a = allocate(4096);
  allocator.release(allocate(8192));
  allocator.count_sidecar(a, 4096);
  allocator.count_sidecar(a, -4096);
  CHECK(allocator.stats().peak == 4096 + 8192);
  CHECK(allocator.stats().sidecars_peak == 4096);
  allocator.reset_peak();
  CHECK(allocator.stats().peak == 4096);
  CHECK(allocator.stats().sidecars_peak == 0);
  allocator.release(a);
}

TEST_CASE_FIXTURE(Allocating<1024 * kMebibyte>,
                  "thousands of blocks never overlap, and all of them come back") {
  std::mt19937 random(7);
  std::vector<MemoryBlock> live;
  std::map<std::byte*, std::byte*> taken;  // begin to end
  std::size_t in_use = 0;
  for (int i = 0; i < 5000; ++i) {
    if (!live.empty() && (live.size() > 40 || random() % 2 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      in_use -= live.back().nbytes;
      taken.erase(live.back().data);
      allocator.release(live.back());
      live.pop_back();
      continue;
    }
    const std::size_t nbytes = std::size_t{1} << random() % 24;
    const MemoryBlock block =
        allocator.allocate(nbytes, random() % 2 == 0 ? &first_stream : &second_stream);
    REQUIRE(block.nbytes >= nbytes);
    const auto next = taken.lower_bound(block.data);
    REQUIRE((next == taken.end() || block.data + block.nbytes <= next->first));
    REQUIRE((next == taken.begin() || std::prev(next)->second <= block.data));
    taken[block.data] = block.data + block.nbytes;
    in_use += block.nbytes;
    REQUIRE(allocator.stats().allocated == in_use);
    REQUIRE(allocator.stats().reserved == source.used);
    live.push_back(block);
  }
  for (const MemoryBlock& block : live) allocator.release(block);
  allocator.trim();
  CHECK(source.used == 0);
}

TEST_CASE_FIXTURE(
    Allocating<64 * kMebibyte>,
    "a capture has memory of its own, which every capture has anew and trim leaves alone") {
  const MemoryBlock before = allocate(1000);
  std::vector<std::byte*> places[2];
  for (auto& of_capture : places) {
    allocator.begin_capture(&first_stream);
    const MemoryBlock a = allocate(1000);
    of_capture.push_back(a.data);
    allocator.release(a);
    const MemoryBlock again = allocate(700);  // released memory is reused
    CHECK(again.data == a.data);
    const MemoryBlock large = allocate(12 * kMebibyte);
    of_capture.push_back(large.data);
    allocator.release(large);
    allocator.release(again);
    allocator.add_graph();
    CHECK(allocator.end_capture() == 0);
  }
  CHECK(places[0] == places[1]);
  CHECK(allocator.stats().graphs == 20 * kMebibyte);
  CHECK(allocator.stats().reserved == 22 * kMebibyte);
  CHECK(allocator.stats().allocated == before.nbytes);

  // No other block gets it while a graph exists, not even the next of its stream.
  const MemoryBlock other = allocate(1000);
  CHECK(other.data != places[0][0]);
  allocator.release(other);
  allocator.release(before);
  allocator.remove_graph();
  allocator.trim();
  CHECK(source.used == 20 * kMebibyte);
  allocator.remove_graph();
  allocator.trim();
  CHECK(source.used == 0);
  CHECK(allocator.stats().graphs == 0);
}

TEST_CASE_FIXTURE(Allocating<64 * kMebibyte>,
                  "a graph of smaller blocks needs no memory beside that of larger ones") {
  // Just above and below the limit of small blocks outside a capture.
  for (const std::size_t nbytes : {13 * kMebibyte / 10, 9 * kMebibyte / 10}) {
    allocator.begin_capture(&first_stream);
    std::vector<MemoryBlock> live;
    for (int i = 0; i < 30; ++i) live.push_back(allocate(nbytes));
    for (const MemoryBlock& block : live) allocator.release(block);
    allocator.add_graph();
    CHECK(allocator.end_capture() == 0);
    CHECK(allocator.stats().graphs == 40 * kMebibyte);
  }
}

TEST_CASE_FIXTURE(Allocating<64 * kMebibyte>,
                  "a block from before a capture may be released in it, and belongs to no graph") {
  const MemoryBlock before = allocate(1000);
  allocator.begin_capture(&first_stream);
  allocator.release(before);
  const MemoryBlock inside = allocate(1000);
  CHECK(inside.data != before.data);
  CHECK(allocator.end_capture() == inside.nbytes);  // it outlives the capture
  // Its later release does not count for another capture's blocks.
  allocator.begin_capture(&first_stream);
  const MemoryBlock next = allocate(1000);
  CHECK(next.data != inside.data);
  allocator.release(inside);
  CHECK(allocator.end_capture() == next.nbytes);
  allocator.release(next);
  CHECK(allocator.stats().allocated == 0);
}

TEST_CASE_FIXTURE(
    Allocating<64 * kMebibyte>,
    "other streams and other threads have no part in a capture, of which there is one") {
  allocator.begin_capture(&first_stream);
  CHECK_THROWS_WITH_AS(allocator.begin_capture(&second_stream),
                       "[graph] work of cuda:0 is being captured already", Error);
  const MemoryBlock other_stream = allocator.allocate(1000, &second_stream);
  MemoryBlock other_thread;
  std::thread([&] { other_thread = allocate(1000); }).join();
  CHECK(allocator.stats().graphs == 0);
  CHECK(allocator.end_capture() == 0);
  allocator.release(other_stream);
  allocator.release(other_thread);

  CachingAllocator exact({DeviceType::cuda, 0}, source, true);
  CHECK_THROWS_AS(exact.begin_capture(&first_stream), Error);
}

TEST_CASE_FIXTURE(
    Allocating<64 * kMebibyte>,
    "a branch of a capture has the graphs' memory, but none of the captured stream's") {
  CHECK_THROWS_WITH_AS(allocator.join_capture(&second_stream),
                       "[graph] no work of cuda:0 is being captured", Error);
  allocator.begin_capture(&first_stream);
  allocator.join_capture(&second_stream);
  const MemoryBlock own = allocate(1000);
  allocator.release(own);
  const MemoryBlock branch = allocator.allocate(1000, &second_stream);
  CHECK(branch.data != own.data);
  CHECK(allocator.is_of_graphs(branch));
  CHECK(allocator.end_capture() == branch.nbytes);
  allocator.release(branch);
  const MemoryBlock later = allocator.allocate(1000, &second_stream);
  CHECK_FALSE(allocator.is_of_graphs(later));
  allocator.release(later);
}

TEST_CASE_FIXTURE(
    Allocating<36 * kMebibyte>,
    "while work is captured nothing goes back to the source, which would wait for the device") {
  allocator.release(allocate(16 * kMebibyte));
  allocator.begin_capture(&first_stream);
  CHECK(message_of(24 * kMebibyte).find("out of memory") != std::string::npos);
  allocator.trim();
  CHECK(source.used == 16 * kMebibyte);
  CHECK(allocator.end_capture() == 0);
  // Without a graph the graphs' memory is usable for everything.
  allocator.begin_capture(&first_stream);
  allocator.release(allocate(512));
  CHECK(allocator.end_capture() == 0);
  const MemoryBlock large = allocate(36 * kMebibyte);
  CHECK(source.used == 36 * kMebibyte);
  CHECK(allocator.stats().graphs == 0);
  allocator.release(large);
}
