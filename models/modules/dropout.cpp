#include "ringlet/models/modules/dropout.h"

#include <nlohmann/json.hpp>

namespace ringlet::models::modules {

std::string Dropout::to_json() const { return nlohmann::json{{"dropout", p_}}.dump(); }

}  // namespace ringlet::models::modules
