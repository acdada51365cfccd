// ringlet.Tensor: shares memory with NumPy and, by DLPack, with PyTorch and others.
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/tensor/dlpack.h"
#include "ringlet/train/python/bindings.h"

namespace ringlet::python {
namespace {

// The names that DLPack's Python specification gives to a capsule before and after its use.
constexpr const char* kUnused = "dltensor";
constexpr const char* kUsed = "used_dltensor";

std::uintptr_t address(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.bytes());
}

std::vector<py::ssize_t> shape_of(const Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

/// NumPy's array interface, version 3: the same in NumPy 1 and 2, unlike the structs behind its C
/// interface. A dtype is named by byte order, kind and bytes: "<f4".
py::dict array_interface(const Tensor& tensor) {
  if (tensor.dtype() == DType::bf16) fail_input("NumPy has no dtype bf16");
  if (tensor.device().type != DeviceType::cpu)
    fail_input("NumPy has no memory on ", tensor.device());
  tensor.storage()->share_outside();
  py::dict interface;
  interface["version"] = 3;
  interface["typestr"] = str('<', name(tensor.dtype()).front(), itemsize(tensor.dtype()));
  interface["shape"] = py::tuple(py::cast(shape_of(tensor)));
  interface["data"] = py::make_tuple(address(tensor), /*read_only=*/false);
  return interface;
}

py::capsule to_dlpack(const Tensor& tensor, const py::object& /*stream*/) {
  return py::capsule(dlpack::to_dlpack(tensor), kUnused, [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, kUnused)) return;
    auto* managed = static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule, kUnused));
    managed->deleter(managed);
  });
}

std::pair<int, int> dlpack_device(const Tensor& tensor) {
  const bool cpu = tensor.device().type == DeviceType::cpu;
  return {cpu ? dlpack::kDLCPU : dlpack::kDLCUDA, cpu ? 0 : tensor.device().index};
}

Tensor from_dlpack(const py::object& source) {
  if (!py::hasattr(source, "__dlpack__"))
    throw py::type_error(str("from_dlpack: expected a tensor with __dlpack__, found ",
                             Py_TYPE(source.ptr())->tp_name));
  const py::object capsule = source.attr("__dlpack__")();
  auto* managed =
      static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kUnused));
  if (managed == nullptr) throw py::error_already_set();
  Tensor tensor = dlpack::from_dlpack(managed);
  PyCapsule_SetName(capsule.ptr(), kUsed);
  return tensor;
}

}  // namespace

py::object as_numpy(const py::object& self) {
  array_interface(self.cast<const Tensor&>());  // NumPy hides the error of an attribute
  return py::module_::import("numpy").attr("asarray")(self);
}

void add_tensor(py::module_& module) {
  py::class_<Tensor>(module, "Tensor",
                     "A tensor whose memory NumPy shares, and by DLPack PyTorch and others.")
      .def_property_readonly(
          "shape", [](const Tensor& tensor) { return py::tuple(py::cast(shape_of(tensor))); })
      .def_property_readonly("dtype", [](const Tensor& tensor) { return name(tensor.dtype()); })
      .def_property_readonly("device", [](const Tensor& tensor) { return str(tensor.device()); })
      .def("data_ptr", address)
      .def_property_readonly("__array_interface__", array_interface)
      .def("numpy", as_numpy, "The tensor's memory as a NumPy array.")
      .def("__dlpack__", to_dlpack, py::arg("stream") = py::none())
      .def("__dlpack_device__", dlpack_device)
      .def("__repr__", [](const Tensor& tensor) { return str(tensor); });
  module.def("from_dlpack", from_dlpack, py::arg("tensor"),
             "A Tensor that shares the memory of a NumPy array, a PyTorch tensor or another object "
             "with __dlpack__. Strided memory is copied.");
}

}  // namespace ringlet::python
