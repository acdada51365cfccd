// A store in a folder, for processes of one host or of hosts that share a file system.
#pragma once

#include <memory>
#include <string>

#include "ringlet/comm/store.h"

namespace ringlet::comm {

/// Creates the folder if it is missing. Each job needs a separate, empty one: keys of an earlier
/// job would be taken for those of this one.
std::shared_ptr<Store> make_file_store(const std::string& folder);

}  // namespace ringlet::comm
