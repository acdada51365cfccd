#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

bool has_gloo() { return false; }

std::unique_ptr<Transport> make_gloo_transport(const Membership&) {
  fail_input(
      "[gloo] this build has no gloo: install libgloo-dev and configure with -Dgloo=enabled");
}

}  // namespace ringlet::comm
