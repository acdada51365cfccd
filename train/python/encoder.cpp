// ringlet._ringlet.Encoder: a model folder that encodes texts. ringlet.SentenceEncoder inherits it.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <functional>
#include <mutex>

#include "ringlet/autograd/variable.h"
#include "ringlet/core/base/error.h"
#include "ringlet/models/hub_cache.h"
#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/cli/evaluation_data.h"
#include "ringlet/train/cli/existing_device.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/trained_head.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/python/bindings.h"

namespace ringlet::python {
namespace {

using Ids = std::vector<std::vector<std::int32_t>>;
using MaybeText = std::optional<std::string>;
using MaybeColumns = std::optional<std::int64_t>;

/// Threads take turns: a forward sets the modes of the modules, and has all processors anyway.
class Encoder {
 public:
  Encoder(const std::filesystem::path& model, const std::string& device)
      : folder_(models::cached_folder(model)),
        model_(cli::open_model({.model = folder_.string(), .device = device}, false)) {}

  const models::SentenceEncoder& model() const { return model_; }

  Tensor encode(const std::vector<std::string>& texts, const MaybeText& prompt_name,
                const MaybeText& prompt, MaybeColumns truncate_dim, std::int64_t batch_tokens) {
    const py::gil_scoped_release others_run;
    const std::lock_guard turn(mutex_);
    return train::encode_together(model_, texts,
                                  {.batch_tokens = batch_tokens,
                                   .prompt_name = prompt_name,
                                   .prompt = prompt,
                                   .truncate_dim = truncate_dim},
                                  {});
  }

  Tensor forward(const Ids& rows) {
    const py::gil_scoped_release others_run;
    const std::lock_guard turn(mutex_);
    const autograd::NoGrad no_grad;
    const nn::EvalGuard evaluating(*model_.modules());
    models::BatchBuilder builder;
    for (const std::vector<std::int32_t>& row : rows) {
      const std::span<const std::int32_t> ids = row;
      builder.add_row({&ids, 1}, 0);
    }
    return model_(builder.build().to(model_.device())).tensor().to(Device{});
  }

  Ids tokenize(const std::vector<std::string>& texts) const {
    Ids rows;
    for (const std::string& text : texts) rows.push_back(model_.tokenizer().encode(text).ids);
    return rows;
  }

  void to(const std::string& device) {
    const py::gil_scoped_release others_run;
    const Device there = cli::existing_device(device);
    const std::lock_guard turn(mutex_);
    if (there != model_.device()) model_.modules()->to(there);
  }

  py::dict evaluate(const std::string& file, const std::string& name, const std::string& output) {
    train::Metrics metrics;
    {
      const py::gil_scoped_release others_run;
      const std::lock_guard turn(mutex_);
      cli::EvaluationData data = cli::read_evaluation_data(
          {.option = "evaluate",
           .file = file,
           .classes = cli::head_labels(folder_),
           .read = [](const std::string& one) { return train::read_dataset(one, {}); }},
          name);
      if (data.label_accuracy) data.set_classifier(cli::read_head(folder_, model_));
      metrics = data.evaluator->evaluate(model_, {.output = output});
    }
    py::dict figures;
    for (const auto& [key, value] : metrics) figures[py::str(key)] = value;
    return figures;
  }

 private:
  std::filesystem::path folder_;
  models::SentenceEncoder model_;
  std::mutex mutex_;
};

/// A read-only property of the C++ model.
template <class Get>
auto of_model(Get get) {
  return [get](const Encoder& encoder) { return std::invoke(get, encoder.model()); };
}

}  // namespace

void add_encoder(py::module_& module) {
  using models::SentenceEncoder;
  module.def(
      "cached_folder",
      [](const std::filesystem::path& model) { return models::cached_folder(model).string(); },
      py::arg("model"));
  py::class_<Encoder>(module, "Encoder")
      .def(py::init<const std::filesystem::path&, const std::string&>(), py::arg("model"),
           py::arg("device"), py::call_guard<py::gil_scoped_release>())
      .def("_encode", &Encoder::encode)
      .def("_forward", &Encoder::forward)
      .def("_tokenize", &Encoder::tokenize)
      .def("_evaluate", &Encoder::evaluate)
      .def("_decode", [](const Encoder& encoder, const std::vector<std::int32_t>& ids,
                         bool skip) { return encoder.model().tokenizer().decode(ids, skip); })
      .def_property_readonly("_pad_token_id", of_model([](const SentenceEncoder& model) {
                               return model.tokenizer().special().pad;
                             }))
      .def_property_readonly("_vocab_size", of_model([](const SentenceEncoder& model) {
                               return model.tokenizer().vocab_size();
                             }))
      .def("to", &Encoder::to, py::arg("device"), "Moves the weights: cpu, cuda or cuda:1.")
      .def(
          "save_pretrained",
          [](Encoder& encoder, const std::filesystem::path& path) { encoder.model().save(path); },
          py::arg("path"), py::call_guard<py::gil_scoped_release>(),
          "Writes a folder that SentenceEncoder and Sentence Transformers load.")
      .def_property_readonly(
          "device", of_model([](const SentenceEncoder& model) { return str(model.device()); }))
      .def_property_readonly("prompts", of_model([](const SentenceEncoder& model) {
                               return model.sentence_config().prompts;
                             }))
      .def_property_readonly("default_prompt_name", of_model([](const SentenceEncoder& model) {
                               return model.sentence_config().default_prompt_name;
                             }))
      .def_property_readonly("similarity_fn_name", of_model([](const SentenceEncoder& model) {
                               return model.sentence_config().similarity_fn_name;
                             }))
      .def_property_readonly("dimension", of_model([](const SentenceEncoder& model) {
                               return model.encoded_dimension();
                             }))
      .def_property(
          "truncate_dim", of_model([](const SentenceEncoder& model) {
            return model.sentence_config().truncate_dim;
          }),
          [](Encoder& encoder, MaybeColumns columns) { encoder.model().set_truncate_dim(columns); })
      .def_property("max_seq_length", of_model(&SentenceEncoder::max_seq_length),
                    [](Encoder& encoder, std::int64_t tokens) {
                      const std::int64_t most = encoder.model().config().max_tokens();
                      if (tokens < 1 || tokens > most)
                        fail_input("max_seq_length: expected 1 to ", most, ", found ", tokens);
                      encoder.model().set_max_seq_length(tokens);
                    });
}

}  // namespace ringlet::python
