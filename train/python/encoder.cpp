// ringlet.SentenceEncoder: a model folder that encodes texts.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <mutex>

#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/python/bindings.h"

namespace ringlet::python {
namespace {

/// Threads take turns: a forward sets the modes of the modules, and has all processors anyway.
class Encoder {
 public:
  Encoder(const std::filesystem::path& model, const std::string& device)
      : model_(cli::open_model({.model = model.string(), .device = device}, false)) {}

  Tensor encode(const std::vector<std::string>& texts, const models::EncodeOptions& options) {
    const py::gil_scoped_release others_run;
    const std::lock_guard turn(mutex_);
    return train::encode_together(model_, texts, options, {});
  }
  const models::SentenceEncoder& model() const { return model_; }

 private:
  models::SentenceEncoder model_;
  std::mutex mutex_;
};

py::object encode(Encoder& encoder, const std::vector<std::string>& texts,
                  const std::optional<std::string>& prompt_name,
                  const std::optional<std::string>& prompt,
                  std::optional<std::int64_t> truncate_dim, bool convert_to_tensor,
                  std::int64_t batch_tokens) {
  const py::object tensor = py::cast(encoder.encode(texts, {.batch_tokens = batch_tokens,
                                                            .prompt_name = prompt_name,
                                                            .prompt = prompt,
                                                            .truncate_dim = truncate_dim}));
  return convert_to_tensor ? tensor : as_numpy(tensor);
}

}  // namespace

void add_encoder(py::module_& module) {
  py::class_<Encoder>(module, "SentenceEncoder")
      .def(py::init<const std::filesystem::path&, const std::string&>(), py::arg("model"),
           py::arg("device") = "cpu", py::call_guard<py::gil_scoped_release>(),
           "A Sentence Transformers folder, or organisation/name in Hugging Face's cache.")
      .def("encode", encode, py::arg("texts"), py::kw_only(), py::arg("prompt_name") = py::none(),
           py::arg("prompt") = py::none(), py::arg("truncate_dim") = py::none(),
           py::arg("convert_to_tensor") = false,
           py::arg("batch_tokens") = models::EncodeOptions{}.batch_tokens,
           "Embeddings (texts, dimension) in float32, as a NumPy array or a Tensor.")
      .def_property_readonly("dimension",
                             [](const Encoder& e) { return e.model().encoded_dimension(); })
      .def_property_readonly("max_seq_length",
                             [](const Encoder& e) { return e.model().max_seq_length(); });
}

}  // namespace ringlet::python
