#include "ringlet/core/ops/matmul.h"

#include <atomic>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<MatmulArgs> matmul_kernel("matmul");
constinit OpKernel<SumRowsArgs> sum_rows_kernel("sum_rows");
constinit OpKernel<GeluBackwardArgs> gelu_backward_kernel("gelu_backward");

namespace {

constexpr EnumNames<MatmulPrecision, 3> kPrecisions{"matmul precision",
                                                    {"highest", "high", "medium"}};

std::atomic<MatmulPrecision> precision_in_use{MatmulPrecision::highest};

// The dtype in which a and b are multiplied.
DType common_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  const auto pair = [&](DType x, DType y) { return a.dtype() == x && b.dtype() == y; };
  if (pair(DType::bf16, DType::f32) || pair(DType::f32, DType::bf16)) return DType::bf16;
  check_same_dtype(op, a, b);
  check_computes(op, a.dtype());
  return a.dtype();
}

// The sizes and dtypes of op(a) op(b); `out` is the result's shape.
MatmulArgs plan(const char* op, const Tensor& a, const Tensor& b, MatmulOptions options,
                Shape& out) {
  RINGLET_CHECK(a.dim() >= 2 && b.dim() >= 2, "[", op, "] needs matrices, got ", a.shape(), " and ",
                b.shape());
  MatmulArgs args{};
  args.trans_a = options.trans_a;
  args.trans_b = options.trans_b;
  args.m = a.size(options.trans_a ? -1 : -2);
  args.k = a.size(options.trans_a ? -2 : -1);
  args.n = b.size(options.trans_b ? -2 : -1);
  RINGLET_CHECK_EQ(args.k, b.size(options.trans_b ? -1 : -2), "[", op, "] inner sizes of ",
                   a.shape(), " and ", b.shape(), " differ");
  out = a.shape().with(-2, args.m).with(-1, args.n);
  args.batch = 1;
  for (int i = 0; i < a.dim() - 2; ++i) args.batch *= a.size(i);
  args.a_stride = args.m * args.k;
  args.b_stride = b.dim() == 2 ? 0 : args.k * args.n;
  if (b.dim() > 2) {
    const Shape expected = a.shape().with(-2, b.size(-2)).with(-1, b.size(-1));
    check_shape(op, "b", b, expected);
  } else if (!options.trans_a) {
    // One product for the rows of all matrices.
    args.m *= args.batch;
    args.batch = 1;
  }
  args.dtype = common_dtype(op, a, b);
  args.a_dtype = a.dtype();
  args.b_dtype = b.dtype();
  return args;
}

MatmulArgs plan_into(const char* op, const Tensor& out, const Tensor& a, const Tensor& b,
                     MatmulOptions options) {
  check_same_device(op, out, a);
  Shape shape;
  const MatmulArgs args = plan(op, a, b, options, shape);
  check_shape(op, "out", out, shape);
  RINGLET_CHECK((args.dtype == DType::f64) == (out.dtype() == DType::f64) &&
                    is_floating(out.dtype()) && out.dtype() != DType::f16,
                "[", op, "] ", args.dtype, " products do not go into a ", out.dtype(), " tensor");
  return args;
}

void run(MatmulArgs& args, Tensor& out, const Tensor& a, const Tensor& b, double beta) {
  args.out = out.mutable_bytes();
  args.a = a.bytes();
  args.b = b.bytes();
  args.beta = beta;
  args.out_dtype = out.dtype();
  // No rounded form is cached in a storage that this product writes.
  if (args.b_dtype != args.dtype && b.storage() != out.storage()) args.round_b = b.storage().get();
  if (out.numel() > 0) matmul_kernel(args, out.device());
}

Tensor linear_layer(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Tensor* pre_activation, WeightUse use) {
  RINGLET_CHECK(x.dim() >= 1 && weight.dim() == 2, "[", op, "] needs x (.., in) and weight ",
                "(out, in), got ", x.shape(), " and ", weight.shape());
  const Shape out_shape = x.shape().with(-1, weight.size(0));
  const std::int64_t in = weight.size(1);
  RINGLET_CHECK_EQ(x.size(-1), in, "[", op, "] x ", x.shape(), " and weight ", weight.shape());
  Shape shape;
  MatmulArgs args = plan(op, x.view({in > 0 ? x.numel() / in : out_shape.without(-1).numel(), in}),
                         weight, {.trans_b = true}, shape);
  if (use == WeightUse::kept) args.keep_b = weight.storage().get();
  Tensor offset;
  if (bias) {
    check_shape(op, "bias", bias, {weight.size(0)});
    check_same_device(op, x, bias);
    offset = bias.to(parameter_dtype(x.dtype()));
    args.bias = offset.bytes();
    if (offset.dtype() != x.dtype()) args.round_bias = offset.storage().get();
  }
  Tensor out = empty(out_shape, x.dtype(), x.device());
  if (pre_activation) {
    *pre_activation = empty_like(out);
    args.pre_activation = pre_activation->mutable_bytes();
  }
  run(args, out, x, weight, 0);
  return out;
}

}  // namespace

void set_matmul_precision(MatmulPrecision precision) { precision_in_use = precision; }
MatmulPrecision matmul_precision() { return precision_in_use; }

MatmulPrecision parse_matmul_precision(std::string_view name) { return kPrecisions.parse(name); }
std::string_view precision_name(MatmulPrecision precision) { return kPrecisions(precision); }

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  Shape shape;
  MatmulArgs args = plan("matmul", a, b, options, shape);
  Tensor out = empty(shape, a.dtype(), a.device());
  run(args, out, a, b, 0);
  return out;
}

void matmul_into(Tensor& out, const Tensor& a, const Tensor& b, MatmulOptions options,
                 double beta) {
  MatmulArgs args = plan_into("matmul", out, a, b, options);
  run(args, out, a, b, beta);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, WeightUse use) {
  return linear_layer("linear", x, weight, bias, nullptr, use);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Tensor& pre_activation, WeightUse use) {
  return linear_layer("linear_gelu", x, weight, bias, &pre_activation, use);
}

Tensor gelu_backward(const Tensor& grad, const Tensor& pre_activation, GradientSink row_sums) {
  check_like("gelu_backward", "grad", grad, pre_activation);
  Tensor out = empty_like(grad);
  if (out.numel() == 0) {
    if (row_sums) sum_rows_into(row_sums.out, out, row_sums.beta);
    return out;
  }
  const std::int64_t columns = grad.dim() > 0 ? grad.size(-1) : 1;
  if (row_sums) check_parameter("gelu_backward", "row sums", row_sums.out, {columns}, grad);
  gelu_backward_kernel({out.mutable_bytes(), grad.bytes(), pre_activation.bytes(), row_sums.bytes(),
                        row_sums.beta, grad.numel(), columns, grad.dtype()},
                       grad.device());
  return out;
}

void sum_rows_into(Tensor& out, const Tensor& grad, double beta) {
  RINGLET_CHECK(grad.dim() >= 1, "[sum_rows] needs rows, not a scalar");
  check_parameter("sum_rows", "out", out, {grad.size(-1)}, grad);
  const std::int64_t n = grad.size(-1);
  if (n > 0)
    sum_rows_kernel({out.mutable_bytes(), grad.bytes(), grad.numel() / n, n, beta, grad.dtype()},
                    grad.device());
}

void linear_gradients_into(GradientSink weight, GradientSink bias, const Tensor& grad,
                           const Tensor& x) {
  constexpr const char* kOp = "linear_gradients";
  RINGLET_CHECK(grad.dim() == 2 && x.dim() == 2, "[", kOp, "] needs grad (rows, out) and x ",
                "(rows, in), got ", grad.shape(), " and ", x.shape());
  if (!weight || weight.out.numel() == 0) {
    if (bias) sum_rows_into(bias.out, grad, bias.beta);
    return;
  }
  MatmulArgs args = plan_into(kOp, weight.out, grad, x, {.trans_a = true});
  if (bias) {
    check_parameter(kOp, "out", bias.out, {grad.size(-1)}, grad);
    args.a_sums = bias.bytes();
    args.a_sums_beta = bias.beta;
  }
  run(args, weight.out, grad, x, weight.beta);
}

}  // namespace ringlet
