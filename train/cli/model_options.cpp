#include "ringlet/train/cli/model_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/models/hub_cache.h"
#include "ringlet/train/cli/existing_device.h"
#include "ringlet/train/cli/option_values.h"

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

void add_model_options(CLI::App& command, ModelOptions& options, const std::string& model_help,
                       const std::string& model_names) {
  constexpr int kMaxThreads = 4096;
  command.add_option(model_names, options.model, model_help)->required();
  command.add_option("--device", options.device, "cpu or cuda, perhaps with an index: cuda:1")
      ->capture_default_str();
  add_number(command, "--threads-per-device", options.threads, 1, kMaxThreads,
             "Threads of each CPU device");
  command.add_option("--dtype", options.dtype, "What activations are kept in: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command
      .add_option(
          "--matmul-precision", options.matmul_precision,
          "Of f32 products, PyTorch's names: highest, high (TF32 on a GPU; f32 where kernels "
          "have nothing between) or medium (operands rounded to bf16 where that is faster)")
      ->check(CLI::IsMember({"highest", "high", "medium"}))
      ->capture_default_str();
  add_number(command, "--max-length", options.max_length, 3, 1 << 20,
             "Cut texts to so many tokens");
  add_choice(command, "--pooling", options.pooling, models::kPoolings,
             "Of random weights or a folder without modules.json: mean, the default, cls or max");
  command.add_flag("--normalize", options.normalize,
                   "The same: embeddings of norm 1, by a last module Normalize");
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

void add_truncate_dim(CLI::App& command, std::int64_t& columns) {
  add_number(command, "--truncate-dim", columns, 1, 1 << 24,
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

}  // namespace ringlet::cli
