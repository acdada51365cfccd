#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ringlet/nn/slices.h"
#include "ringlet/train/trainer.h"

namespace ringlet::train {
namespace {

std::int64_t trainable_parameters(const nn::Module& module) {
  std::int64_t count = 0;
  for (const nn::Parameter& parameter : module.parameters())
    if (parameter.requires_grad()) count += nn::whole_shape(parameter).numel();
  return count;
}

/// Epochs that the steps begin.
std::int64_t epochs_of(const TrainingTask& task, std::int64_t steps) {
  std::int64_t epochs = 0;
  for (; steps > 0; ++epochs)
    steps -= static_cast<std::int64_t>(task.steps_per_epoch(static_cast<std::size_t>(epochs)));
  return epochs;
}

}  // namespace

std::string Trainer::header() const {
  const TrainingArguments& given = job_.arguments;
  const std::size_t devices = given.strategy == Strategy::dp
                                  ? given.devices.size()
                                  : static_cast<std::size_t>(job_.mesh.data.size());
  std::size_t examples = 0;
  for (const EpochRows& rows : job_.task->epoch_rows(0)) examples += rows.all;
  const std::size_t batch = given.per_device_train_batch_size,
                    accumulation = given.gradient_accumulation_steps;
  std::string text = "***** Running training *****\n";
  const auto line = [&](const char* name, const auto& value) {
    text += fmt::format("  {} = {}\n", name, value);
  };
  line("Num examples", fmt::group_digits(examples));
  line("Num Epochs", fmt::group_digits(epochs_of(*job_.task, job_.total_steps)));
  line("Instantaneous batch size per device", fmt::group_digits(batch));
  line("Total train batch size (w. parallel, distributed & accumulation)",
       fmt::group_digits(batch * accumulation * devices));
  line("Gradient Accumulation steps", fmt::group_digits(accumulation));
  line("Total optimization steps", fmt::group_digits(job_.total_steps));
  line("Number of trainable parameters",
       fmt::group_digits(trainable_parameters(job_.task->module())));
  const Mesh& mesh = job_.mesh;
  if (mesh.same_rows.size() == 1) return text;
  line("Ranks along data, pipe and tensor",
       fmt::format("{} x {} x {}", mesh.data.size(), mesh.pipe.size(), mesh.tensor.size()));
  if (mesh.tensor.size() > 1) line("Sequence parallelism", given.tensor_sequence ? "yes" : "no");
  const PipelineOptions& pipeline = given.pipeline;
  if (mesh.pipe.size() == 1) return text;
  line("Layers of each pipeline stage", fmt::format("{}", fmt::join(pipeline.layers, " + ")));
  line("Pipeline schedule", str(kPipelines(pipeline.schedule)));
  return text;
}

}  // namespace ringlet::train
