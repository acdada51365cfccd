// The Python module of the backend: makes a process group's part on this rank.
#include <torch/csrc/utils/pybind.h>

#include "backend.h"

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
