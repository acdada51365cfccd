#include <nlohmann/json.hpp>

#include "ringlet/tests/cli/program.h"

TEST_CASE("info tells the devices, the processor's features, the kernels and the libraries") {
  const Outcome outcome = run({"info", "--json"});
  REQUIRE_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  const auto info = nlohmann::json::parse(outcome.out);
  CHECK_EQ(info["devices"][0]["name"], "cpu:0");
  CHECK(info["devices"][0]["threads"] >= 1);
  CHECK(info["memory_bytes"] > 0);
  CHECK(info["libraries"].contains("Eigen"));
  const std::string kernels = info["kernels"];
  const auto& features = info["processor"]["features"];
  const auto has = [&](const char* name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  if (kernels == "avx512") CHECK(has("avx512f"));
  if (kernels == "avx2") CHECK(has("avx2"));
  CHECK(run({"info"}).out.find("kernels    " + kernels + "\n") != std::string::npos);
}

TEST_CASE("info names the instruction set that was asked for, and refuses one that is unknown") {
  ::setenv("RINGLET_ISA", "portable", 1);
  CHECK(run({"info"}).out.find("kernels    portable\n") != std::string::npos);
  ::setenv("RINGLET_ISA", "mmx", 1);
  check_refused(run({"info"}), "RINGLET_ISA=mmx is unknown; expected portable, avx2 or avx512");
  ::unsetenv("RINGLET_ISA");
}
