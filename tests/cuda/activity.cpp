// Records of a fake CUPTI with given activity.
#include "ringlet/cuda/activity.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/cupti.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

struct Seen {
  CUpti_ActivityKind kind;
  std::uint64_t start, end;
  std::uint32_t device = 0, graph = 0;
};

/// Returns the records in `seen` at a flush, `per_buffer` in each buffer.
struct {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<CUpti_ActivityKind> enabled;
  std::vector<Seen> seen;
  std::size_t per_buffer = 100, dropped = 0;
  CUptiResult enabling = CUPTI_SUCCESS, flushing = CUPTI_SUCCESS;
  bool ends_early = false;
} fake;

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#endif

template <class Record>
std::size_t write(std::uint8_t* to, const Seen& seen) {
  Record record{};
  record.kind = seen.kind;
  record.start = seen.start;
  record.end = seen.end;
  record.deviceId = seen.device;
  record.graphId = seen.graph;
  if constexpr (requires { record.name; }) record.name = "kernel";
  std::memcpy(to, &record, sizeof(record));
  return sizeof(record);
}
std::size_t write(std::uint8_t* to, const Seen& seen) {
  if (seen.kind == CUPTI_ACTIVITY_KIND_MEMCPY) return write<CopyRecord>(to, seen);
  if (seen.kind == CUPTI_ACTIVITY_KIND_MEMSET) return write<CUpti_ActivityMemset4>(to, seen);
  return write<KernelRecord>(to, seen);
}
std::size_t size_of(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) return sizeof(CopyRecord);
  if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) return sizeof(CUpti_ActivityMemset4);
  return sizeof(KernelRecord);
}

CUptiResult enable(CUpti_ActivityKind kind) {
  if (fake.enabling == CUPTI_SUCCESS) fake.enabled.insert(kind);
  return fake.enabling;
}
CUptiResult disable(CUpti_ActivityKind kind) {
  fake.enabled.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                          CUpti_BuffersCallbackCompleteFunc complete) {
  fake.request = request;
  fake.complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult flush(std::uint32_t) {
  for (std::size_t at = 0; at < fake.seen.size();) {
    std::uint8_t* buffer = nullptr;
    std::size_t nbytes = 0, most = 0, used = 0;
    fake.request(&buffer, &nbytes, &most);
    REQUIRE(nbytes > fake.per_buffer * sizeof(KernelRecord));
    for (std::size_t i = 0; i < fake.per_buffer && at < fake.seen.size(); ++i)
      used += write(buffer + used, fake.seen[at++]);
    fake.complete(nullptr, 0, buffer, nbytes, used);
  }
  fake.seen.clear();
  return fake.flushing;
}
CUptiResult next_record(std::uint8_t* buffer, std::size_t used, CUpti_Activity** record) {
  if (fake.ends_early) return CUPTI_ERROR_INVALID_KIND;
  auto* at = *record ? reinterpret_cast<std::uint8_t*>(*record) + size_of(**record) : buffer;
  if (at >= buffer + used) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}
CUptiResult dropped(CUcontext, std::uint32_t, std::size_t* count) {
  *count = std::exchange(fake.dropped, 0);
  return CUPTI_SUCCESS;
}
CUptiResult result_string(CUptiResult status, const char** text) {
  *text = status == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                                        : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}

const Cupti fake_cupti{disable, enable, flush, next_record, dropped, set_callbacks, result_string};

constexpr auto kKernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

std::unique_ptr<ActivityRecording> recording_of(std::vector<Seen> seen) {
  fake = {};
  auto recording = record_activity(Device{}, fake_cupti);
  fake.seen = std::move(seen);
  return recording;
}

}  // namespace

TEST_CASE("kernels, copies and fills of the device come as intervals, once") {
  const auto recording = recording_of({{kKernel, 10, 20},
                                       {CUPTI_ACTIVITY_KIND_MEMCPY, 30, 31},
                                       {kKernel, 11, 12, 1},  // of a different device
                                       {CUPTI_ACTIVITY_KIND_MEMSET, 40, 44},
                                       {CUPTI_ACTIVITY_KIND_DRIVER, 1, 2}});
  CHECK(fake.enabled == std::set<CUpti_ActivityKind>{kKernel, CUPTI_ACTIVITY_KIND_MEMCPY,
                                                     CUPTI_ACTIVITY_KIND_MEMSET});
  fake.per_buffer = 2;
  CHECK(recording->take() ==
        std::vector<Activity>{{{10, 20}, "kernel"}, {{30, 31}, "copy"}, {{40, 44}, "fill"}});
  fake.seen = {{kKernel, 50, 60, 0, /*graph=*/7}};
  CHECK(recording->take() == std::vector<Activity>{{{50, 60}, "kernel", /*in_graph=*/true}});
  CHECK(recording->take().empty());
}

TEST_CASE("a recording ends with its scope, and the next begins with nothing") {
  {
    const auto recording = recording_of({{kKernel, 10, 20}});
    CHECK_THROWS_WITH_AS(record_activity(Device{}, fake_cupti),
                         doctest::Contains("there is a recording already"), Error);
  }
  CHECK(fake.enabled.empty());
  CHECK(fake.seen.empty());
  const auto recording = record_activity(Device{}, fake_cupti);
  CHECK(recording->take().empty());
}

TEST_CASE("times that are not all known are an error, not a figure") {
  const auto message = [](const std::function<void()>& spoil) {
    const auto recording = recording_of({{kKernel, 10, 20}, {kKernel, 30, 40}});
    spoil();
    try {
      recording->take();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message([] {}).empty());
  CHECK(message([] { fake.dropped = 3; }).find("3 records were dropped") != std::string::npos);
  CHECK(message([] { fake.seen[1].end = 0; }).find("1 have no times") != std::string::npos);
  CHECK(message([] { fake.ends_early = true; }).find("ended early") != std::string::npos);
  CHECK(message([] { fake.flushing = CUPTI_ERROR_UNKNOWN; }).find("cuptiActivityFlushAll: CUPTI") !=
        std::string::npos);
}

TEST_CASE("an error that forbids recording has CUPTI's text, and ends with the recording") {
  fake = {};
  fake.enabling = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  CHECK_THROWS_WITH_AS(
      record_activity(Device{}, fake_cupti),
      doctest::Contains("[cupti] cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"), Error);
  fake.enabling = CUPTI_SUCCESS;
  CHECK_NOTHROW(record_activity(Device{}, fake_cupti));
}
