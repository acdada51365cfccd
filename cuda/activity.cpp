#include "ringlet/cuda/activity.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/cuda/cupti.h"
#include "ringlet/cuda/shared_library.h"

namespace ringlet::cuda {
namespace {

Cupti load_cupti() {
  const SharedLibrary library("cupti", str("libcupti.so.", CUDART_VERSION / 1000),
                              RINGLET_CUPTI_LIBRARIES,
                              "records of what a GPU does need CUPTI of CUDA " RINGLET_CUDA_TOOLKIT
                              ": install it, or name its folder in LD_LIBRARY_PATH");
  Cupti functions{};
#define RINGLET_FIND(function) library.find(functions.function, #function);
  RINGLET_CUPTI_FUNCTIONS(RINGLET_FIND)
#undef RINGLET_FIND
  return functions;
}

}  // namespace

const Cupti& cupti() {
  static const Cupti functions = load_cupti();
  return functions;
}

namespace {

// Not KERNEL, which serialises kernels.
constexpr CUpti_ActivityKind kActivityKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

// The record types that the library of this header writes.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#endif
using FillRecord = CUpti_ActivityMemset4;

constexpr std::size_t kActivityBufferBytes = std::size_t{4} << 20, kActivityAlignment = 8;

/// CUPTI's records of a device. One per process, because CUPTI's callbacks get no context.
class ActivityRecords {
 public:
  void begin(const Cupti& cupti, Device device) {
    const std::lock_guard lock(mutex_);
    RINGLET_CHECK(!cupti_, "[cupti] there is a recording already");
    cupti_ = &cupti;
    device_ = device;
    said_ = {};
  }
  void end() {
    const std::lock_guard lock(mutex_);
    cupti_ = nullptr;
  }

  std::vector<Activity> take() {
    const std::lock_guard lock(mutex_);
    Said said = std::exchange(said_, {});
    RINGLET_CHECK(said.lost == 0 && said.without_times == 0 && !said.broken,
                  "[cupti] not all is known: ", said.lost, " records were dropped, ",
                  said.without_times, " have no times",
                  said.broken ? ", a buffer ended early" : "");
    return std::move(said.work);
  }

  void add_buffer(std::uint8_t* buffer, std::size_t nbytes) {
    const std::lock_guard lock(mutex_);
    if (!cupti_) return;  // a buffer of a recording that has ended
    CUpti_Activity* record = nullptr;
    CUptiResult status = CUPTI_SUCCESS;
    while ((status = cupti_->cuptiActivityGetNextRecord(buffer, nbytes, &record)) == CUPTI_SUCCESS)
      add_record(*record);
    said_.broken = said_.broken || status != CUPTI_ERROR_MAX_LIMIT_REACHED;
    std::size_t dropped = 0;
    if (cupti_->cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS)
      said_.lost += dropped;
  }

 private:
  struct Said {
    std::vector<Activity> work = {};
    std::size_t lost = 0, without_times = 0;
    bool broken = false;
  };

  void add_record(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return add(reinterpret_cast<const KernelRecord&>(record),
                   reinterpret_cast<const KernelRecord&>(record).name);
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        return add(reinterpret_cast<const CopyRecord&>(record), "copy");
      case CUPTI_ACTIVITY_KIND_MEMSET:
        return add(reinterpret_cast<const FillRecord&>(record), "fill");
      default:
        return;
    }
  }
  template <class Record>
  void add(const Record& record, const char* name) {
    if (record.deviceId != static_cast<std::uint32_t>(device_.index)) return;
    if (record.start == 0 || record.end == 0)
      ++said_.without_times;
    else
      said_.work.push_back({{record.start, record.end}, name ? name : "", record.graphId != 0});
  }

  std::mutex mutex_;
  const Cupti* cupti_ = nullptr;  // null: nothing is recorded
  Device device_;
  Said said_;
};

// Never destroyed: CUPTI may return buffers during the program's exit.
ActivityRecords& activity_records() {
  static auto* all = new ActivityRecords;
  return *all;
}

// Without a buffer CUPTI drops records, and counts them.
void give_buffer(std::uint8_t** buffer, std::size_t* nbytes, std::size_t* most_records) {
  *buffer =
      static_cast<std::uint8_t*>(std::aligned_alloc(kActivityAlignment, kActivityBufferBytes));
  *nbytes = *buffer ? kActivityBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t nbytes) {
  if (nbytes > 0) activity_records().add_buffer(buffer, nbytes);
  std::free(buffer);
}

void check_cupti(const Cupti& cupti, CUptiResult status, const char* what,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (status == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  cupti.cuptiGetResultString(status, &words);
  fail("[cupti] ", what, ": ", words ? words : "failed", " (status ", static_cast<int>(status),
       ", ", file, ':', line, ')');
}

class CuptiRecording final : public ActivityRecording {
 public:
  CuptiRecording(Device device, const Cupti& cupti) : device_(device), cupti_(cupti) {
    activity_records().begin(cupti, device);
    try {
      check_cupti(cupti, cupti.cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
                  "cuptiActivityRegisterCallbacks");
      for (const CUpti_ActivityKind kind : kActivityKinds)
        check_cupti(cupti, cupti.cuptiActivityEnable(kind), "cuptiActivityEnable");
    } catch (...) {
      stop();
      throw;
    }
  }
  ~CuptiRecording() override { stop(); }
  CuptiRecording(const CuptiRecording&) = delete;
  CuptiRecording& operator=(const CuptiRecording&) = delete;

  std::vector<Activity> take() override {
    synchronize(device_);
    // Forced: incomplete records then arrive without times, and are counted.
    check_cupti(cupti_, cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
                "cuptiActivityFlushAll");
    return activity_records().take();
  }

 private:
  // CUPTI itself stays loaded: unloading it breaks the graphs that it has recorded.
  void stop() {
    for (const CUpti_ActivityKind kind : kActivityKinds) cupti_.cuptiActivityDisable(kind);
    cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    activity_records().end();
  }

  Device device_;
  const Cupti& cupti_;
};

}  // namespace

std::unique_ptr<ActivityRecording> record_activity(Device device, const Cupti& cupti) {
  return std::make_unique<CuptiRecording>(device, cupti);
}

std::unique_ptr<ActivityRecording> record_activity(Device device) {
  return record_activity(device, cupti());
}

}  // namespace ringlet::cuda
