// The strategies by name.
#pragma once

#include <string_view>

namespace ringlet::train {

enum class Strategy { none, dp, ddp, zero1, zero2, fsdp };
inline constexpr const char* kStrategyNames = "none, dp, ddp, zero1, zero2 or fsdp";
const char* strategy_name(Strategy strategy);
/// The strategy of that name; InputError for any other text.
Strategy parse_strategy(std::string_view name);

}  // namespace ringlet::train
