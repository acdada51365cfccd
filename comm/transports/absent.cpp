// Stubs of transports that this build has no library for.
#include "comm/transport_settings.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

#ifndef RINGLET_HAS_GLOO
bool has_gloo() { return false; }

std::unique_ptr<Transport> make_gloo_transport(const Membership&) {
  fail_input(
      "[gloo] this build has no gloo: install libgloo-dev and configure with -Dgloo=enabled");
}
#endif

#ifndef RINGLET_HAS_NCCL
std::string why_no_nccl() {
  return "this build has no NCCL: install libnccl-dev beside the CUDA toolkit and configure again";
}
void check_nccl() { fail_input("[nccl] ", why_no_nccl()); }

std::unique_ptr<Transport> make_nccl_transport(const Membership&, Transport&, TransportKind) {
  return nullptr;
}
#endif

}  // namespace ringlet::comm
