#include "ringlet/core/ops/random.h"

#include "ringlet/core/device/graph.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<RandomArgs> random_kernel("random");
constinit OpKernel<DropoutArgs> dropout_kernel("dropout");

namespace {

Tensor draw(const char* op, RandomDistribution distribution, Shape shape, double first,
            double second, DType dtype, Device device, RandomGenerator& generator) {
  check_computes(op, dtype);
  Tensor out = empty(shape, dtype, device);
  const PhiloxKey key = generator.next_key();
  if (out.numel() > 0)
    random_kernel({out.mutable_bytes(), out.numel(), distribution, first, second, key, dtype},
                  device);
  return out;
}

}  // namespace

DropoutMask dropout_of(const char* op, const DropoutKey& key) {
  RINGLET_CHECK(key.p >= 0 && key.p < 1, "[", op, "] p is ", key.p, ", expected 0 <= p < 1");
  if (key.p > 0 && !key.at)
    check_not_capturing("dropout, whose masks are another step's next time,");
  return {derive_key(key.seed, key.step, key.site), dropout_threshold(key.p),
          dropout_scale(static_cast<double>(key.p)), key.at};
}

DropoutMask weight_dropout(const char* op, const DropoutKey& key) {
  DropoutMask dropout = dropout_of(op, key);
  const float p = weight_share(key.p);
  if (key.p > 0 && p == 0)
    fail_input("[", op, "] p is ", key.p, ", expected 0 or at least 2^-17, 7.62939e-06");
  dropout.threshold = dropout_threshold(p);
  dropout.scale = dropout_scale(static_cast<double>(p));
  return dropout;
}

RowDropout row_dropout(const char* op, const DropoutKey& key, const Tensor& positions,
                       std::int64_t rows) {
  if (positions) {
    check_shape(op, "positions", positions, {rows, 2});
    RINGLET_CHECK_EQ(positions.dtype(), DType::i32, "[", op, "] dtype of positions");
  }
  return {dropout_of(op, key), positions ? positions.data<std::int32_t>() : nullptr};
}

Tensor uniform(Shape shape, double low, double high, DType dtype, Device device,
               RandomGenerator& generator) {
  return draw("uniform", RandomDistribution::uniform, shape, low, high, dtype, device, generator);
}

Tensor normal(Shape shape, double mean, double std, DType dtype, Device device,
              RandomGenerator& generator) {
  return draw("normal", RandomDistribution::normal, shape, mean, std, dtype, device, generator);
}

Tensor dropout(const Tensor& x, const DropoutKey& key, const Tensor& positions) {
  RINGLET_CHECK(x.dim() > 0, "[dropout] needs rows of columns, not a scalar");
  if (positions) check_same_device("dropout", x, positions);
  const std::int64_t columns = x.size(-1);
  const std::int64_t rows = columns > 0 ? x.numel() / columns : 0;
  const RowDropout drops = row_dropout("dropout", key, columns > 0 ? positions : Tensor(), rows);
  Tensor out = empty_like(x);
  if (out.numel() > 0)
    dropout_kernel({out.mutable_bytes(), x.bytes(), rows, columns, drops, x.dtype()}, x.device());
  return out;
}

}  // namespace ringlet
