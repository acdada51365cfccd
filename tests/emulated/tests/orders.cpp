// Accesses of streams and of the host that nothing orders are faults that name both sides.
#include <cuda_runtime_api.h>

#include <array>
#include <functional>

#include "../emulated.h"
#include "kernel_text.h"

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*);
}

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

/// A kernel: thread 0 runs `body` on the memory that is the argument.
class LaunchedKernel {
 public:
  explicit LaunchedKernel(const std::string& body) : text_(kernel_text(body)) {
    const std::uint64_t nbytes = text_.size() + 1;
    binary_.resize(16 + nbytes);
    std::memcpy(binary_.data() + 8, &nbytes, sizeof(nbytes));
    std::memcpy(binary_.data() + 16, text_.c_str(), nbytes);
    wrapper_ = {0, 1, binary_.data(), nullptr};
    __cudaRegisterFunction(__cudaRegisterFatBinary(&wrapper_), binary_.data(), nullptr, "kernel",
                           -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  void launch(void* memory, cudaStream_t stream) const {
    std::array<void*, 1> arguments{&memory};
    REQUIRE(cudaLaunchKernel(binary_.data(), 1, 1, arguments.data(), 0, stream) == cudaSuccess);
  }
  void load() const {
    cudaFuncAttributes attributes;
    REQUIRE(cudaFuncGetAttributes(&attributes, binary_.data()) == cudaSuccess);
  }

 private:
  struct Wrapper {
    int magic, version;
    const char* data;
    void* file;
  };
  std::string text_;
  std::vector<char> binary_;
  Wrapper wrapper_{};
};

// Never destroyed: they are registered until exit.
const LaunchedKernel& reader() {
  static auto* const kernel = new LaunchedKernel("ld.global.u32 %r1, [%base];");
  return *kernel;
}
const LaunchedKernel& writer() {
  static auto* const kernel = new LaunchedKernel("st.global.u32 [%base], 7;");
  return *kernel;
}

struct Streams3 {
  Streams3() {
    for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(&device, 64);
    cudaMalloc(&other, 64);
    cudaHostAlloc(&pinned, 64, 0);
    cudaMemsetAsync(device, 0, 64, streams[0]);
    cudaMemsetAsync(other, 0, 64, streams[0]);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    faults = fault_count();
  }
  ~Streams3() {
    cudaFree(device), cudaFree(other), cudaFreeHost(pinned);
    for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
    cudaEventDestroy(event);
  }
  Streams3(const Streams3&) = delete;
  Streams3& operator=(const Streams3&) = delete;

  void wait(int waiting, int before) {
    cudaEventRecord(event, streams[static_cast<std::size_t>(before)]);
    cudaStreamWaitEvent(streams[static_cast<std::size_t>(waiting)], event, 0);
  }
  /// Whether something has failed.
  bool fails() {
    const cudaError_t status = cudaDeviceSynchronize();
    const bool failed = fault_count() > faults;
    CHECK((status != cudaSuccess) == failed);
    faults = fault_count();
    return failed;
  }

  std::array<cudaStream_t, 3> streams{};
  cudaEvent_t event = nullptr;
  void *device = nullptr, *other = nullptr, *pinned = nullptr;
  int faults = 0;
};

using Enqueue = std::function<void(Streams3&, cudaStream_t)>;
const Enqueue kWrites = [](Streams3& on, cudaStream_t stream) {
  writer().launch(on.device, stream);
};
const Enqueue kReads = [](Streams3& on, cudaStream_t stream) {
  reader().launch(on.device, stream);
};
const Enqueue kFills = [](Streams3& on, cudaStream_t stream) {
  cudaMemsetAsync(on.device, 0, 64, stream);
};
const Enqueue kCopiesFrom = [](Streams3& on, cudaStream_t stream) {
  cudaMemcpyAsync(on.other, on.device, 64, cudaMemcpyDeviceToDevice, stream);
};

}  // namespace

TEST_CASE("streams that no event orders race, whatever they do, and an event mends it") {
  const std::vector<std::pair<Enqueue, Enqueue>> pairs{
      {kWrites, kReads},      {kReads, kWrites}, {kWrites, kWrites},    {kFills, kReads},
      {kWrites, kCopiesFrom}, {kReads, kFills},  {kCopiesFrom, kWrites}};
  for (const auto& pair : pairs) {
    for (const bool ordered : {false, true}) {
      Streams3 on;
      pair.first(on, on.streams[0]);
      if (ordered) on.wait(1, 0);
      pair.second(on, on.streams[1]);
      CHECK(on.fails() == !ordered);
    }
  }
}

TEST_CASE("a write must wait for the readers of every stream, not for the last one alone") {
  for (const int missing : {0, 1, 2}) {
    Streams3 on;
    kReads(on, on.streams[0]);
    kCopiesFrom(on, on.streams[1]);
    for (const int reader : {0, 1})
      if (reader != missing) on.wait(2, reader);
    kWrites(on, on.streams[2]);
    CHECK(on.fails() == (missing < 2));
  }
}

TEST_CASE("memory that another stream takes over must wait for its last use") {
  // As an allocator does that gives a block to another stream.
  for (const bool ordered : {false, true}) {
    Streams3 on;
    kCopiesFrom(on, on.streams[0]);
    if (ordered) on.wait(1, 0);
    cudaMemsetAsync(on.device, 0xff, 64, on.streams[1]);
    CHECK(on.fails() == !ordered);
  }
}

TEST_CASE("the host waits before it reads what a copy writes") {
  const auto reads = [](Streams3& on) { return static_cast<volatile int*>(on.pinned)[1]; };
  for (const bool waits : {false, true}) {
    Streams3 on;
    cudaMemcpyAsync(on.pinned, on.device, 64, cudaMemcpyDeviceToHost, on.streams[0]);
    cudaEventRecord(on.event, on.streams[0]);
    if (waits) cudaEventSynchronize(on.event);
    static_cast<void>(reads(on));
    CHECK(on.fails() == !waits);
  }
}

TEST_CASE("the host waits for the event of the copy, not for an earlier one") {
  Streams3 on;
  cudaEventRecord(on.event, on.streams[0]);
  cudaMemcpyAsync(on.pinned, on.device, 64, cudaMemcpyDeviceToHost, on.streams[0]);
  cudaEventSynchronize(on.event);
  *static_cast<volatile int*>(on.pinned) = 5;
  CHECK(on.fails());
  *static_cast<volatile int*>(on.pinned) = 5;
  CHECK(!on.fails());
}

TEST_CASE("the host waits before it changes what a copy reads") {
  for (const bool waits : {false, true}) {
    Streams3 on;
    std::memset(on.pinned, 1, 64);
    cudaMemcpyAsync(on.device, on.pinned, 64, cudaMemcpyHostToDevice, on.streams[0]);
    if (waits) cudaStreamSynchronize(on.streams[0]);
    std::memset(on.pinned, 2, 64);
    CHECK((cudaDeviceSynchronize() != cudaSuccess || fault_count() > on.faults) == !waits);
    static_cast<void>(cudaDeviceSynchronize());
    on.faults = fault_count();
  }
}

TEST_CASE("in program order a launch may wait for a later one of another GPU") {
  const Settings before = settings();
  configure({.seed = 0, .devices = 2});
  // It gives up after a million looks.
  static const auto* const waiter = new LaunchedKernel(
      "mov.u32 %r2, 0;\nagain:\nadd.u32 %r2, %r2, 1;\nsetp.gt.u32 %p1, %r2, 1000000;\n"
      "@%p1 bra end;\nld.acquire.sys.global.u32 %r1, [%base];\nsetp.eq.u32 %p1, %r1, 0;\n"
      "@%p1 bra again;\nend:\nst.global.u32 [%base+4], %r1;");
  static const auto* const signal = new LaunchedKernel("st.release.sys.global.u32 [%base], 1;");
  Streams3 on;
  cudaSetDevice(1);
  cudaDeviceEnablePeerAccess(0, 0);
  signal->load();  // after its launch the waiter would be waited for
  waiter->launch(on.device, on.streams[0]);
  signal->launch(on.device, nullptr);
  cudaSetDevice(0);
  cudaMemcpyAsync(on.pinned, static_cast<int*>(on.device) + 1, 4, cudaMemcpyDeviceToHost,
                  on.streams[0]);
  CHECK(!on.fails());
  CHECK(*static_cast<const int*>(on.pinned) == 1);
  configure(before);
}

// Else the clocks of an all-reduce would grow with each launch.
TEST_CASE("an acquire leaves out blocks of operations that happened before the launch") {
  BlockClock released, acquired;
  released.see({1, 0}, {5, -1});
  released.see({2, 0}, {5, -1});
  acquired.join_unordered(released, [](OperationId operation) { return operation == 1; });
  CHECK_FALSE(acquired.has_seen({1, 0}, 4, 0));
  CHECK(acquired.has_seen({2, 0}, 4, 0));
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
