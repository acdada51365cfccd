// The parts of the Python module `ringlet._ringlet`.
#pragma once

#include <pybind11/pybind11.h>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::python {

namespace py = pybind11;

void add_tensor(py::module_& module);
void add_encoder(py::module_& module);
void add_train(py::module_& module);

/// The memory of a `ringlet.Tensor` as a NumPy array, which keeps the tensor as its base.
py::object as_numpy(const py::object& tensor);

}  // namespace ringlet::python
