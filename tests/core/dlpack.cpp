#include "ringlet/core/tensor/dlpack.h"

#include <doctest/doctest.h>

#include "ringlet/core/device/backend.h"

#include "../device.h"
#include "fake_backend.h"

using namespace ringlet;
using namespace ringlet::dlpack;

namespace {

/// A tensor of another library: counts its deletions.
template <class Managed>
struct Foreign {
  std::vector<float> data{0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  int deleted = 0;
  Managed managed{};

  Foreign() {
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    managed.dl_tensor = {data.data(),  {kDLCPU, 0},    2, {kDLFloat, 32, 1},
                         shape.data(), strides.data(), 0};
  }
  DLTensor& tensor() { return managed.dl_tensor; }
};
using Plain = Foreign<DLManagedTensor>;

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "a foreign tensor is shared and deleted with its last user") {
  Plain foreign;
  {
    Tensor x = from_dlpack(&foreign.managed);
    CHECK(x.shape() == Shape{2, 3});
    CHECK(x.bytes() == reinterpret_cast<std::byte*>(foreign.data.data()));
    const Tensor row = x[1];
    x = Tensor();
    CHECK(row.to_vector() == std::vector<float>{3, 4, 5});
    CHECK(foreign.deleted == 0);
  }
  CHECK(foreign.deleted == 1);
}

TEST_CASE_FIXTURE(
    OnCpu, "no strides means row-major, sizes of one have any stride, the offset is in bytes") {
  Plain foreign;
  foreign.tensor().strides = nullptr;
  foreign.tensor().byte_offset = 4;
  foreign.shape = {1, 5};
  CHECK(from_dlpack(&foreign.managed).to_vector() == std::vector<float>{1, 2, 3, 4, 5});
  Plain one;
  one.shape = {1, 6};
  one.tensor().shape = one.shape.data();
  one.strides = {99, 1};
  one.tensor().strides = one.strides.data();
  const Tensor x = from_dlpack(&one.managed);
  CHECK(x.bytes() == reinterpret_cast<std::byte*>(one.data.data()));
}

TEST_CASE_FIXTURE(OnCpu, "strided tensors are copied and deleted at once") {
  const auto values = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                         std::uint64_t offset) {
    Plain foreign;
    foreign.shape = shape;
    foreign.strides = strides;
    foreign.tensor().shape = foreign.shape.data();
    foreign.tensor().strides = foreign.strides.data();
    foreign.tensor().ndim = static_cast<std::int32_t>(shape.size());
    foreign.tensor().byte_offset = offset;
    const std::vector<float> out = from_dlpack(&foreign.managed).to_vector();
    CHECK(foreign.deleted == 1);
    return out;
  };
  CHECK(values({3, 2}, {1, 3}, 0) == std::vector<float>{0, 3, 1, 4, 2, 5});  // transposed
  CHECK(values({3}, {2}, 4) == std::vector<float>{1, 3, 5});                 // every other
  CHECK(values({2, 2}, {0, 1}, 0) == std::vector<float>{0, 1, 0, 1});        // broadcast
  CHECK(values({3}, {-1}, 20) == std::vector<float>{5, 4, 3});               // backwards
  CHECK(values({2, 1, 2}, {3, 7, 2}, 0) == std::vector<float>{0, 2, 3, 5});
  CHECK(values({0, 2}, {1, 1}, 0).empty());
}

TEST_CASE_FIXTURE(OnCpu, "unaligned and read-only data is copied") {
  Plain unaligned;
  unaligned.tensor().byte_offset = 1;
  unaligned.shape = {1, 2};
  CHECK(from_dlpack(&unaligned.managed).numel() == 2);
  CHECK(unaligned.deleted == 1);

  Foreign<DLManagedTensorVersioned> read_only;
  read_only.managed.version = {1, 1};
  read_only.managed.flags = kReadOnly;
  Tensor x = from_dlpack(&read_only.managed);
  CHECK(read_only.deleted == 1);
  x.fill_(7);
  CHECK(read_only.data[0] == 0);
}

TEST_CASE_FIXTURE(OnCpu, "dtypes map both ways; bool is u8") {
  Plain foreign;
  foreign.tensor().dtype = {kDLBool, 8, 1};
  CHECK(from_dlpack(&foreign.managed).dtype() == DType::u8);
  for (DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
    const Tensor x = ones({2}, dtype);
    const Tensor back = from_dlpack(to_dlpack(x));
    CHECK(back.dtype() == dtype);
    CHECK(back.bytes() == x.bytes());
  }
}

TEST_CASE_FIXTURE(OnCpu, "an unsupported tensor is refused and stays the caller's") {
  const auto refused = [](auto change) {
    Plain foreign;
    change(foreign.tensor());
    CHECK_THROWS_AS(from_dlpack(&foreign.managed), Error);
    CHECK(foreign.deleted == 0);
  };
  refused([](DLTensor& t) { t.dtype = {kDLInt, 16, 1}; });
  refused([](DLTensor& t) { t.dtype = {kDLFloat, 32, 4}; });
  refused([](DLTensor& t) { t.device.device_type = 7; });
  refused([](DLTensor& t) { t.ndim = 9; });
  refused([](DLTensor& t) { t.ndim = -1; });
  refused([](DLTensor& t) { t.shape[0] = -2; });
  refused([](DLTensor& t) { t.shape[0] = t.shape[1] = std::int64_t{1} << 40; });
  Foreign<DLManagedTensorVersioned> next;
  next.managed.version = {2, 0};
  CHECK_THROWS_WITH(from_dlpack(&next.managed), "[from_dlpack] DLPack version 2.0, expected 1.x");
}

TEST_CASE_FIXTURE(OnCpu, "a handed-out tensor keeps its memory until the deleter runs") {
  Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const std::weak_ptr<Storage> memory = x.storage();
  DLManagedTensorVersioned* out = to_dlpack_versioned(x.slice(1, 3));
  x = Tensor();
  REQUIRE_FALSE(memory.expired());
  CHECK(out->version.major == 1);
  CHECK(out->dl_tensor.ndim == 2);
  CHECK(out->dl_tensor.shape[0] == 2);
  CHECK(out->dl_tensor.strides[0] == 2);
  CHECK(static_cast<float*>(out->dl_tensor.data)[0] == 3);
  out->deleter(out);
  CHECK(memory.expired());
}

TEST_CASE_FIXTURE(OnCpu,
                  "a tensor of CUDA waits for the device on its way in, out and at its end") {
  if (has_backend(DeviceType::cuda)) return;
  FakeBackend cuda(1);
  Plain foreign;
  foreign.tensor().device = {kDLCUDA, 0};
  {
    const Tensor x = from_dlpack(&foreign.managed);
    CHECK(cuda.synchronized == 1);
    DLManagedTensor* out = to_dlpack(x);
    CHECK(cuda.synchronized == 2);
    out->deleter(out);
    CHECK(cuda.synchronized == 3);
    CHECK(foreign.deleted == 0);
  }
  CHECK(cuda.synchronized == 4);
  CHECK(foreign.deleted == 1);
}
