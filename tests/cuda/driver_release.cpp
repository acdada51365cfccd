// The driver's release from its module's version file: needs no device and no driver.
#include "ringlet/cuda/driver_release.h"

#include <doctest/doctest.h>

using ringlet::cuda::release_in;

TEST_CASE("the driver's release is found in what either of its modules says") {
  CHECK(release_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.60.13  Wed Nov 30 06:39:21 "
                   "UTC 2022\n") == "525.60.13");
  CHECK(release_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release "
                   "Build  (dvs-builder@U22)") == "580.95.05");
  CHECK(release_in("NVRM version: NVIDIA UNIX aarch64 Kernel Module  550.54") == "550.54");
}

TEST_CASE("where there is no release there is none") {
  CHECK(release_in("") == "");
  CHECK(release_in("NVRM version: ... x86_64 2022 .5 v1.2") == "");
}
