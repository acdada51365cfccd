// Values that identify their rank, and comparisons for use inside ranks. A failed comparison
// throws, which ends the launch on every rank with one line.
#pragma once

#include <cstring>

#include "ringlet/comm/launch.h"
#include "ringlet/tests/device.h"
#include "ringlet/tests/message.h"

namespace ringlet::comm {

/// The message of the error that ends all ranks; empty if there is none.
inline std::string end_of_launch(const std::function<void(const Group&)>& rank_main, int ranks,
                                 const GroupOptions& options = {}) {
  return message_of([&] { launch(rank_main, ranks, {.group = options}); });
}

inline const std::vector<DType> kDTypes = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                           DType::i32, DType::i64, DType::u8};

/// The transports of this build for the device that tensors are made on.
inline std::vector<TransportKind> transports() {
  if (has_fake_nccl) return {TransportKind::thread, TransportKind::nccl};
  if (default_device().type != DeviceType::cpu) return {TransportKind::thread};
  std::vector<TransportKind> kinds = {TransportKind::thread, TransportKind::shm};
#if defined(RINGLET_TESTS_GLOO)
  kinds.push_back(TransportKind::gloo);
#endif
  return kinds;
}

/// Element i of rank r's tensor: small, so that sums over ranks are exact in every dtype.
inline int element(int rank, std::int64_t i) { return static_cast<int>((i * 7 + rank * 31) % 41); }

inline double sum_over_ranks(int ranks, std::int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += element(rank, i);
  return sum;
}

/// A slice that starts one element into its storage: aligned only to its dtype.
inline Tensor numbered(int rank, std::int64_t n, DType dtype = DType::f32) {
  std::vector<double> values{-1};
  for (std::int64_t i = 0; i < n; ++i) values.push_back(element(rank, i));
  return tensor(values, {n + 1}).to(dtype).slice(1, n + 1);
}

/// Throws unless element i is expected(i), for all i in [begin, end).
template <class Expected>
void expect(const Tensor& actual, std::int64_t begin, std::int64_t end, Expected expected,
            const std::string& what) {
  const std::vector<double> values = actual.to_vector<double>();
  for (std::int64_t i = begin; i < end; ++i) {
    const double value = values[static_cast<std::size_t>(i)];
    RINGLET_CHECK_EQ(value, static_cast<double>(expected(i)), what, ", element ", i, " of ",
                     values.size());
  }
}

inline void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  RINGLET_CHECK_EQ(a.nbytes(), b.nbytes(), what);
  const Tensor host_a = a.to(Device{}), host_b = b.to(Device{});
  const auto *x = host_a.bytes(), *y = host_b.bytes();
  for (std::size_t i = 0; i < a.nbytes(); ++i)
    RINGLET_CHECK(x[i] == y[i], what, ": byte ", i, " of ", a.nbytes(), " differs");
}

}  // namespace ringlet::comm
