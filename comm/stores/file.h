// A store in a folder, for processes of one host or of hosts that share a file system.
#pragma once

#include <memory>
#include <string>

#include "ringlet/comm/store.h"

namespace ringlet::comm {

/// Makes the folder where there is none. Each job needs an empty one of its own: what an earlier
/// job left in it would be taken for this one's.
std::shared_ptr<Store> make_file_store(const std::string& folder);

}  // namespace ringlet::comm
