// The parts of a trainer that follow from its arguments.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ringlet/train/checkpoint.h"
#include "ringlet/train/loader.h"
#include "ringlet/train/trainer.h"

namespace ringlet::train {

/// InputError that names the argument, the expected values and the one found.
void check_arguments(const TrainingArguments& arguments, const comm::Group& group);

LoaderOptions loader_options(const TrainingArguments& arguments, const comm::Group& group);
std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments);
/// The number of moments that the optimizer keeps for each element.
int moments_of(const TrainingArguments& arguments);
/// Why steps cannot be captured; empty if they can.
std::string why_no_step_graphs(const TrainingArguments& arguments);

/// The settings that an update depends on, in addition to the data. With another value, a resumed
/// run would continue with other bits than the stopped one.
UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps);
/// InputError that names the checkpoint and all differences.
void check_same_arguments(const std::filesystem::path& checkpoint, const UpdateArguments& saved,
                          const UpdateArguments& wanted);

}  // namespace ringlet::train
