#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

std::string why_no_nccl() {
  return "this build has no NCCL: install libnccl-dev beside the CUDA toolkit and configure again";
}
void check_nccl() { fail_input("[nccl] ", why_no_nccl()); }

std::unique_ptr<Transport> make_nccl_transport(const Membership&, Transport&, TransportKind) {
  return nullptr;
}

}  // namespace ringlet::comm
