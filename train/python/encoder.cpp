// ringlet._ringlet.Encoder: a model folder that encodes texts. ringlet.SentenceEncoder inherits it.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <functional>
#include <mutex>
#include <utility>

#include "ringlet/autograd/variable.h"
#include "ringlet/core/base/error.h"
#include "ringlet/models/folder.h"
#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/cli/evaluation_data.h"
#include "ringlet/train/cli/model_options.h"
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

  /// f(model) while no other thread uses it. Python's other threads run meanwhile.
  template <class F>
  auto locked(const F& f) {
    const py::gil_scoped_release others_run;
    const std::lock_guard turn(mutex_);
    return std::invoke(f, std::as_const(model_));
  }

  Tensor encode(const std::vector<std::string>& texts, const MaybeText& prompt_name,
                const MaybeText& prompt, MaybeColumns truncate_dim, std::int64_t batch_tokens) {
    return locked([&](const models::SentenceEncoder& model) {
      return train::encode_together(model, texts,
                                    {.batch_tokens = batch_tokens,
                                     .prompt_name = prompt_name,
                                     .prompt = prompt,
                                     .truncate_dim = truncate_dim},
                                    {});
    });
  }

  Tensor forward(const Ids& rows) {
    return locked([&](const models::SentenceEncoder& model) {
      const autograd::NoGrad no_grad;
      const nn::EvalGuard evaluating(*model.modules());
      models::BatchBuilder builder;
      for (const std::vector<std::int32_t>& row : rows) {
        const std::span<const std::int32_t> ids = row;
        builder.add_row({&ids, 1}, 0);
      }
      return model(builder.build().to(model.device())).tensor().to(Device{});
    });
  }

  Ids tokenize(const std::vector<std::string>& texts) {
    return locked([&](const models::SentenceEncoder& model) {
      Ids rows;
      for (const std::string& text : texts) rows.push_back(model.tokenizer().encode(text).ids);
      return rows;
    });
  }

  void to(const std::string& device) {
    locked([&](const models::SentenceEncoder& model) {
      const Device there = cli::existing_device(device);
      if (there != model.device()) model.modules()->to(there);
    });
  }

  py::dict evaluate(const std::string& file, const std::string& name, const std::string& output) {
    const train::Metrics metrics = locked([&](const models::SentenceEncoder& model) {
      cli::EvaluationData data = cli::read_evaluation_data(
          {.option = "evaluate", .file = file, .classes = cli::head_labels(folder_)}, name);
      if (data.label_accuracy) data.set_classifier(cli::read_head(folder_, model));
      return data.evaluator->evaluate(model, {.output = output});
    });
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
  return [get](Encoder& encoder) { return encoder.locked(get); };
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
      .def("_decode",
           [](Encoder& encoder, const std::vector<std::int32_t>& ids, bool skip) {
             return encoder.locked(
                 [&](const SentenceEncoder& model) { return model.tokenizer().decode(ids, skip); });
           })
      .def_property_readonly("_pad_token_id", of_model([](const SentenceEncoder& model) {
                               return model.tokenizer().special().pad;
                             }))
      .def_property_readonly("_vocab_size", of_model([](const SentenceEncoder& model) {
                               return model.tokenizer().vocab_size();
                             }))
      .def("to", &Encoder::to, py::arg("device"), "Moves the weights: cpu, cuda or cuda:1.")
      .def(
          "save_pretrained",
          [](Encoder& encoder, const std::filesystem::path& path) {
            encoder.locked([&](const SentenceEncoder& model) { model.save(path); });
          },
          py::arg("path"), "Writes a folder that SentenceEncoder and Sentence Transformers load.")
      .def_property_readonly(
          "device", of_model([](const SentenceEncoder& model) { return str(model.device()); }))
      .def_property_readonly("prompts", of_model([](const SentenceEncoder& model) {
                               return model.sentence_config().prompts;
                             }))
      .def_property_readonly("default_prompt_name", of_model([](const SentenceEncoder& model) {
                               return model.sentence_config().default_prompt_name;
                             }))
      .def_property(
          "similarity_fn_name", of_model([](const SentenceEncoder& model) {
            return model.sentence_config().similarity_fn_name;
          }),
          [](Encoder& encoder, const py::object& name) {  // a string, or Python's enum of them
            const std::string text = py::str(py::getattr(name, "value", name));
            encoder.locked(
                [&](const SentenceEncoder& model) { model.set_similarity_fn_name(text); });
          })
      .def_property_readonly("dimension", of_model([](const SentenceEncoder& model) {
                               return model.encoded_dimension();
                             }))
      .def_property(
          "truncate_dim", of_model([](const SentenceEncoder& model) {
            return model.sentence_config().truncate_dim;
          }),
          [](Encoder& encoder, MaybeColumns columns) {
            encoder.locked([&](const SentenceEncoder& model) { model.set_truncate_dim(columns); });
          })
      .def_property("max_seq_length", of_model(&SentenceEncoder::max_seq_length),
                    [](Encoder& encoder, std::int64_t tokens) {
                      encoder.locked([&](const SentenceEncoder& model) {
                        const std::int64_t most = model.config().max_tokens();
                        if (tokens < 1 || tokens > most)
                          fail_input("max_seq_length: expected 1 to ", most, ", found ", tokens);
                        model.set_max_seq_length(tokens);
                      });
                    });
}

}  // namespace ringlet::python
