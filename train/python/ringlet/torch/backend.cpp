#include "backend.h"

#include <ATen/ATen.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "ringlet/core/base/error.h"

namespace ringlet::pytorch {
namespace {

std::optional<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::f32;
    case at::kDouble:
      return DType::f64;
    case at::kBFloat16:
      return DType::bf16;
    case at::kHalf:
      return DType::f16;
    case at::kInt:
      return DType::i32;
    case at::kLong:
      return DType::i64;
    case at::kByte:
      return DType::u8;
    default:
      return std::nullopt;
  }
}

}  // namespace

int64_t unit_of(const at::Tensor& tensor) {
  return dtype_of(tensor.scalar_type()) ? 1 : tensor.element_size();
}

int64_t count_of(const at::Tensor& tensor) { return tensor.numel() * unit_of(tensor); }

Tensor as_ringlet(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu(), "[ringlet] a tensor on ", tensor.device(),
              ": the backend is for CPU tensors; use \"cpu:ringlet,cuda:nccl\"");
  TORCH_CHECK(tensor.layout() == at::kStrided, "[ringlet] a tensor of layout ", tensor.layout());
  const auto nbytes = static_cast<std::size_t>(tensor.nbytes());
  auto storage = std::make_shared<Storage>(static_cast<std::byte*>(tensor.data_ptr()), nbytes,
                                           Device{}, [kept = tensor] {});
  return Tensor(std::move(storage), 0, {count_of(tensor)},
                dtype_of(tensor.scalar_type()).value_or(DType::u8));
}

comm::Pieces pieces_of(const std::vector<int64_t>& counts) {
  comm::Pieces pieces;
  std::int64_t end = 0;
  for (const auto count : counts) {
    pieces.push_back({end, count});
    end += count;
  }
  return pieces;
}

std::vector<int64_t> counts_of(const Tensors& tensors) {
  std::vector<int64_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(count_of(tensor));
  return counts;
}

const at::Tensor& only(const char* op, const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "[ringlet] ", op, " takes one tensor, not ", tensors.size());
  return tensors[0];
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<Options> options)
    : c10d::Backend(rank, size),
      store_(std::make_shared<Store>(store)),
      options_(std::move(options)),
      group_(store_, rank, size, {.timeout = options_->timeout}) {
  init();
}

// The group waits for work in flight; its futures may call Python.
Backend::~Backend() {
  ends_ = true;
  std::optional<pybind11::gil_scoped_release> without_gil;
  if (Py_IsInitialized() && PyGILState_Check()) without_gil.emplace();
  if (any_source_.joinable()) any_source_.join();
  group_ = comm::Group();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const auto mine = std::ranges::find(ranks, rank_);
  if (mine == ranks.end()) return nullptr;
  return c10::make_intrusive<Backend>(store, static_cast<int>(mine - ranks.begin()),
                                      static_cast<int>(ranks.size()), options);
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<Options>& options,
                                                 const int& rank, const int& size) {
  return c10::make_intrusive<Backend>(store, rank, size, options);
}

void Backend::startCoalescing() {
  coalesced_.clear();  // an exception in an earlier block, which then has no end
  coalesces_ = true;
}

WorkPointer Backend::endCoalescing() {
  coalesces_ = false;
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const WorkPointer& work : std::exchange(coalesced_, {}))
    futures.push_back(work->getFuture());
  return c10d::Work::create_from_future(c10::collectAll(futures));
}

void Backend::abort() {
  group_.store().raise("rank " + std::to_string(rank_) + " aborted the process group");
}

std::string Backend::where() const {
  std::string text = " (process group '" + options_->group_name + "'";
  const auto& ranks = options_->global_ranks_in_group;  // none: all
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? ", global ranks " : " ") + std::to_string(ranks[i]);
  return text + ", timeout " + std::to_string(options_->timeout.count()) + " ms)";
}

WorkPointer Backend::launch(const CallName& name, const Tensors& inputs, const Tensors& results,
                            const std::function<comm::Work(After&)>& start) {
  ++calls_;
  auto work = c10::make_intrusive<Work>(name, rank_, inputs, results, where());
  After after;
  std::optional<comm::CallerRuns> here;
  if (name.caller_waits && !coalesces_) here.emplace();
  try {
    const comm::Work last = start(after);
    work->follow(last, std::move(after));
    if (here) work->run();
  } catch (const Error& error) {  // for example a size that another rank refused before
    work->complete(std::current_exception());
  }
  if (coalesces_) {
    std::erase_if(coalesced_, [](const auto& one) { return one->isSuccess(); });
    coalesced_.push_back(work);
  }
  return work;
}

at::Tensor Backend::written(const at::Tensor& tensor, After& after) {
  const at::Tensor plain = tensor.detach();
  if (plain.is_contiguous()) return plain;
  at::Tensor flat = plain.contiguous();
  after.push_back([plain, flat] { plain.copy_(flat); });
  return flat;
}

}  // namespace ringlet::pytorch

// The Python module, which makes a process group's part on this rank.
namespace {

c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, std::int64_t timeout_ms, const std::string& name,
                                         const std::vector<std::uint64_t>& global_ranks) {
  auto options =
      c10::make_intrusive<c10d::Backend::Options>("ringlet", std::chrono::milliseconds(timeout_ms));
  options->group_name = name;
  options->global_ranks_in_group = global_ranks;
  return c10::make_intrusive<ringlet::pytorch::Backend>(store, rank, size, std::move(options));
}

}  // namespace

PYBIND11_MODULE(_torch, module) {
  module.def("create", create, pybind11::call_guard<pybind11::gil_scoped_release>());
}
