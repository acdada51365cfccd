// Matrix products by other libraries, if the build found them.
#include "kernels_cases.h"

#include <cstddef>
#include <memory>

#if defined(RINGLET_BENCH_OPENBLAS)
#include <cblas.h>
#endif
#if defined(RINGLET_BENCH_ONEDNN)
#include <oneapi/dnnl/dnnl.hpp>
#endif

// A function of the peer's OpenMP library; null if it uses none.
extern "C" void omp_set_num_threads(int threads) __attribute__((weak));

namespace ringlet::bench {
namespace {

#if defined(RINGLET_BENCH_OPENBLAS)
Peer openblas(Product& product) {
  return {"OpenBLAS", [&product] {
            const auto& [a, b, options, out] = product;
            const auto side = [](bool transposed) {
              return transposed ? CblasTrans : CblasNoTrans;
            };
            const auto size = [](std::int64_t n) { return static_cast<blasint>(n); };
            cblas_sgemm(CblasRowMajor, side(options.trans_a), side(options.trans_b),
                        size(out.size(0)), size(out.size(1)), size(a.size(options.trans_a ? 0 : 1)),
                        1, a.data<float>(), size(a.size(1)), b.data<float>(), size(b.size(1)), 0,
                        product.out.mutable_data<float>(), size(out.size(1)));
          }};
}
#endif

#if defined(RINGLET_BENCH_ONEDNN)
dnnl::memory::desc description(const Tensor& x, bool transposed) {
  using Memory = dnnl::memory;
  const auto type = x.dtype() == DType::bf16 ? Memory::data_type::bf16 : Memory::data_type::f32;
  const std::int64_t rows = x.size(transposed ? 1 : 0), columns = x.size(transposed ? 0 : 1);
  return {{rows, columns}, type, transposed ? Memory::format_tag::ba : Memory::format_tag::ab};
}

Peer onednn(Product& product) {
  struct State {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    dnnl::matmul matmul;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  const auto state = std::make_shared<State>();
  const auto a = description(product.a, product.options.trans_a);
  const auto b = description(product.b, product.options.trans_b);
  const auto out = description(product.out, false);
#if DNNL_VERSION_MAJOR >= 3
  state->matmul = dnnl::matmul({state->engine, a, b, out});
#else
  state->matmul = dnnl::matmul({dnnl::matmul::desc(a, b, out), state->engine});
#endif
  const auto memory = [&](const dnnl::memory::desc& of, const std::byte* data) {
    return dnnl::memory(of, state->engine, const_cast<std::byte*>(data));
  };
  state->arguments = {{DNNL_ARG_SRC, memory(a, product.a.bytes())},
                      {DNNL_ARG_WEIGHTS, memory(b, product.b.bytes())},
                      {DNNL_ARG_DST, memory(out, product.out.mutable_bytes())}};
  return {"oneDNN", [state] {
            state->matmul.execute(state->stream, state->arguments);
            state->stream.wait();
          }};
}
#endif

}  // namespace

std::vector<Peer> product_peers([[maybe_unused]] Product& product, int threads) {
  if (omp_set_num_threads) omp_set_num_threads(threads);
  std::vector<Peer> peers;
#if defined(RINGLET_BENCH_OPENBLAS)
  openblas_set_num_threads(threads);
  if (product.a.dtype() == DType::f32) peers.push_back(openblas(product));
#endif
#if defined(RINGLET_BENCH_ONEDNN)
  peers.push_back(onednn(product));
#endif
  return peers;
}

}  // namespace ringlet::bench
