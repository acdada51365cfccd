// Errors of CUDA and its libraries: the call, its place in the source, and a hint.
#include "ringlet/cuda/check.h"

#include <doctest/doctest.h>

#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/launch.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

int line_of(LaunchSite site) { return site.line; }
LaunchSite passed_on(const char* name) { return name; }

// A function that is no kernel.
void no_kernel(int) {}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a kernel's name brings the file and the line that launch it") {
  const LaunchSite site = "relu";
  const int line = __LINE__ - 1;
  CHECK_EQ(std::string(site.name), "relu");
  CHECK_EQ(std::string(site.file), __FILE__);
  CHECK_EQ(site.line, line);
  CHECK_EQ(line_of("relu"), __LINE__);
  CHECK_NE(passed_on("relu").line, __LINE__);  // the site is that of the launch
}

TEST_CASE("a failed launch says which line launched it") {
  if (default_device().type != DeviceType::cuda) {
    MESSAGE("skipped: needs a GPU and --device cuda");
    return;
  }
  int line = 0;
  const std::string message = message_of([&] {
    line = __LINE__ + 1;
    launch("no_kernel", default_device(), no_kernel, 3, 32, 0, 1);
  });
  CAPTURE(message);
  CHECK(contains(message, "[cuda] no_kernel<<<(3, 1, 1), (32, 1, 1), 0>>> on cuda:"));
  CHECK(contains(message, str(__FILE__, ':', line, ')')));
}

TEST_CASE("an error of CUDA says what, where, and what may help") {
  const std::string message = message_of([] { RINGLET_CUDA(cudaErrorMemoryAllocation); });
  CAPTURE(message);
  CHECK_EQ(message.rfind("[cuda] cudaErrorMemoryAllocation: ", 0), 0);
  CHECK(contains(message, str("(cudaErrorMemoryAllocation, ", __FILE__, ':', __LINE__ - 3, ")")));
  CHECK(contains(message, "; a smaller batch"));
}

TEST_CASE("an error of cuBLAS does, too") {
  const auto message = [](cublasStatus_t status) {
    return message_of([&] { fail_cublas(status, "multiply(a)", "there.cpp", 7); });
  };
  CHECK_EQ(
      message(CUBLAS_STATUS_ALLOC_FAILED),
      "[cublas] multiply(a): out of memory (status 3, there.cpp:7); a smaller batch, or another "
      "process on the device, may make room");
  CHECK(contains(message(CUBLAS_STATUS_EXECUTION_FAILED), "CUDA_LAUNCH_BLOCKING=1"));
  CHECK(contains(message(CUBLAS_STATUS_ARCH_MISMATCH), "compute capability 8.0"));
  CHECK(contains(message(CUBLAS_STATUS_NOT_INITIALIZED), "driver"));
  for (const cublasStatus_t status :
       {CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR})
    CHECK(contains(message(status), "CUBLASLT_LOG_LEVEL=5"));
}
