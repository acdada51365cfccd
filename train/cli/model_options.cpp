#include "ringlet/train/cli/model_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {
namespace {

/// A folder of Sentence Transformers says how it pools.
void check_no_modules(const ModelOptions& options) {
  const auto list = models::cached_folder(options.model) / "modules.json";
  if ((options.pooling || options.normalize) && path_exists(list))
    fail_input(options.pooling ? "--pooling" : "--normalize",
               ": expected random weights or a folder without modules.json, found ", list.string());
}

}  // namespace

void add_model_options(Command& command, ModelOptions& options, const std::string& model_help,
                       const std::string& model_names) {
  constexpr int kMaxThreads = 4096;
  command.add(model_names, options.model, model_help).required = true;
  command.add("--device", options.device, "cpu or cuda, perhaps with an index: cuda:1");
  command.add("--threads-per-device", options.threads, Range{1, kMaxThreads},
              "Threads of each CPU device");
  command.add("--dtype", options.dtype, OneOf{{"f32", "bf16"}},
              "What activations are kept in: f32 or bf16");
  command.add("--matmul-precision", options.matmul_precision, OneOf{{"highest", "high", "medium"}},
              "Of f32 products, PyTorch's names: highest, high (TF32 on a GPU; f32 where kernels "
              "have nothing between) or medium (operands rounded to bf16 where that is faster)");
  command.add("--max-length", options.max_length, Range{3, 1 << 20}, "Cut texts to so many tokens");
  command.add("--pooling", options.pooling, models::kPoolings,
              "Of random weights or a folder without modules.json: mean, the default, cls or max");
  command.add("--normalize", options.normalize,
              "The same: embeddings of norm 1, by a last module Normalize");
}

Device existing_device(const std::string& name) {
  Device device = of_option("--device", [&] { return Device::parse(name); });
  if (!has_backend(device.type)) fail_input("--device ", name, ": ", no_device(device.type));
  if (device.type == DeviceType::cuda && device.index >= backend(device.type).device_count())
    fail_input("--device ", name, ": there are ", backend(device.type).device_count(),
               " CUDA devices, the first is cuda:0");
  const comm::Environment rank = comm::Environment::read();
  if (name != "cuda" || rank.world_size <= 1) return device;
  const int count = backend(device.type).device_count();
  device.index = rank.gpu(count);
  // One that sees few of several may be shown another than its neighbours.
  if (rank.local_rank == count && count > 1)
    fmt::print(
        stderr,
        "--device {}: the ranks of this host are more than the {} CUDA devices that they see, and "
        "share them\n",
        name, count);
  return device;
}

Device use_device(const ModelOptions& options) {
  if (options.threads > 0) set_threads_per_device(options.threads);
  set_matmul_precision(parse_matmul_precision(options.matmul_precision));
  return existing_device(options.device);
}

void apply(const ModelOptions& options, const models::SentenceEncoder& encoder) {
  encoder.transformer()->set_compute_dtype(parse_dtype(options.dtype));
  if (options.max_length == 0) return;
  if (options.max_length > encoder.config().max_tokens())
    fail_input("--max-length ", options.max_length, ": the model takes at most ",
               encoder.config().max_tokens(), " tokens");
  encoder.set_max_seq_length(options.max_length);
}

void add_truncate_dim(Command& command, std::int64_t& columns) {
  command.add("--truncate-dim", columns, Range{1, 1 << 24},
              "Keep so many leading numbers of each embedding, not normalised again");
}

void truncate(const models::SentenceEncoder& model, std::int64_t columns) {
  if (columns > model.dimension())
    fail_input("--truncate-dim ", columns, ": the model's embeddings have ", model.dimension(),
               " numbers");
  if (columns > 0) model.set_truncate_dim(columns);
}

models::SentenceEncoder open_model(const ModelOptions& options, bool tell) {
  const Device device = use_device(options);
  check_no_modules(options);
  auto encoder = models::SentenceEncoder::from_pretrained(options.model, device);
  for (const std::string& key : encoder.unused_keys())
    if (tell) fmt::print(stderr, "{}: the key has no effect here\n", key);
  std::string unused;
  for (const std::string& name : encoder.unused_names()) unused += " " + shown(name);
  if (tell && !unused.empty())
    fmt::print(stderr, "{}: weights without use:{}\n", options.model, unused);
  if (options.pooling || options.normalize)
    encoder = {encoder.transformer(), encoder.tokenizer(),
               options.pooling.value_or(models::Pooling::mean), options.normalize};
  apply(options, encoder);
  return encoder;
}

void add_prompt_options(Command& command, PromptOptions& options) {
  command.add("--prompt", options.texts,
              "TEXT that goes before every text trained on; COLUMN=TEXT before those of a column, "
              "=TEXT if it contains a =; may be repeated");
  command.add("--prompt-name", options.names,
              "The same: NAME or COLUMN=NAME of the folder's prompts");
}

train::Prompts read_prompts(const PromptOptions& options, const models::SentenceEncoder& encoder) {
  train::Prompts prompts;
  const auto add = [&](const char* option, const std::string& given, const auto& text_of) {
    const std::size_t equals = given.find('=');
    const std::string column = equals == given.npos ? "" : given.substr(0, equals);
    const std::string text = of_option(str(option, ' ', given), [&] {
      return encoder.prompt(text_of(equals == given.npos ? given : given.substr(equals + 1)));
    });
    if (!prompts.emplace(column, text).second)
      fail_input(option, ' ', given, ": expected one prompt for ",
                 column.empty() ? "every column" : column, ", found two");
  };
  using models::EncodeOptions;
  for (const std::string& text : options.texts)
    add("--prompt", text, [](const std::string& of) { return EncodeOptions{.prompt = of}; });
  for (const std::string& name : options.names)
    add("--prompt-name", name,
        [](const std::string& of) { return EncodeOptions{.prompt_name = of}; });
  return prompts;
}

}  // namespace ringlet::cli
