// Training arguments as text, under their names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

/// Every argument with a value of its own in a model card; not folders, devices and the like, which
/// differ between machines.
std::vector<std::pair<std::string, std::string>> argument_texts(const TrainingArguments& arguments);

/// The arguments that differ from the defaults.
std::vector<std::pair<std::string, std::string>> changed_arguments(
    const TrainingArguments& arguments);

}  // namespace ringlet::train
