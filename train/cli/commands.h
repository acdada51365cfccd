// The subcommands of the program `ringlet`. Each adds its options and what runs when it is chosen;
// errors are exceptions, which main() turns into one line and an exit code.
#pragma once

#include "ringlet/train/cli/command.h"

namespace ringlet::cli {

void add_audit(Command& program);
void add_encode(Command& program);
void add_evaluate(Command& program);
void add_explain(Command& program);
void add_explain_schedules(Command& explain);  // its commands ring, tree and pipeline
void add_info(Command& program);
void add_make_data(Command& program);
void add_mine(Command& program);
void add_reduce(Command& program);
void add_run(Command& program);
void add_search(Command& program);
void add_train(Command& program);

}  // namespace ringlet::cli
