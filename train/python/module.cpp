// The Python module `ringlet`.
#include <csignal>
#include <exception>

#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/python/bindings.h"

namespace ringlet::python {
namespace {

/// InputError is a ValueError, too. A training that SIGINT ended is a KeyboardInterrupt.
void add_errors(py::module_& module) {
  static const py::handle error = py::register_exception<Error>(module, "Error");
  const py::tuple bases = py::make_tuple(error, py::handle(PyExc_ValueError));
  py::register_exception<InputError>(module, "InputError", bases);
  for (const char* name : {"Error", "InputError"}) module.attr(name).attr("__module__") = "ringlet";
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const cli::Interrupted& end) {
      PyErr_SetString(end.signal == SIGINT ? PyExc_KeyboardInterrupt : error.ptr(), end.what());
    }
  });
}

}  // namespace
}  // namespace ringlet::python

PYBIND11_MODULE(_ringlet, module) {
  module.attr("__version__") = RINGLET_VERSION;
  module.doc() = "Sentence encoders of ringlet: encoding, training, and tensors by DLPack.";
  ringlet::python::add_errors(module);
  ringlet::python::add_tensor(module);
  ringlet::python::add_encoder(module);
  ringlet::python::add_train(module);
}
