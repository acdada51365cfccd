// What a trainer makes of its arguments.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ringlet/train/checkpoint.h"
#include "ringlet/train/loader.h"
#include "ringlet/train/trainer.h"

namespace ringlet::train {

/// InputError, naming the argument, what was expected and what was found.
void check_arguments(const TrainingArguments& arguments, const comm::Group& group);

LoaderOptions loader_options(const TrainingArguments& arguments, const comm::Group& group);
std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments);
/// What the optimizer keeps for each element.
int moments_of(const TrainingArguments& arguments);
/// Why steps cannot be captured; empty where nothing is against it.
std::string why_no_step_graphs(const TrainingArguments& arguments);

/// What an update depends on beside the data: with another value, a resumed run would go on with
/// other bits than the one that was stopped.
UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps);
/// InputError, naming the checkpoint and all that differ.
void check_same_arguments(const std::filesystem::path& checkpoint, const UpdateArguments& saved,
                          const UpdateArguments& wanted);

}  // namespace ringlet::train
