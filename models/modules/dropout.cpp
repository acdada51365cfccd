#include "ringlet/models/modules/dropout.h"
#include "ringlet/core/io/json.h"

namespace ringlet::models::modules {

std::string Dropout::to_json() const { return Json{{"dropout", p_}}.dump(); }

}  // namespace ringlet::models::modules
