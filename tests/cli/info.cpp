#include <unistd.h>

#include <map>
#include <set>
#include <sstream>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/train/cli/machine.h"

TEST_SUITE_BEGIN("host");

TEST_CASE("info tells the devices, the processor's features, the kernels and the libraries") {
  const Outcome outcome = run("info --json");
  REQUIRE_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  const auto info = ringlet::Json::parse(outcome.out);
  CHECK_EQ(info["devices"][0]["name"], "cpu:0");
  CHECK(info["devices"][0]["threads"] >= 1);
  CHECK(info["memory_bytes"] > 0);
  for (const char* memory : {"private", "shared"}) {
    const std::int64_t page = info["page_bytes"][memory].integer();
    CHECK((page == sysconf(_SC_PAGE_SIZE) || page == 2 << 20));
  }
  CHECK(info["libraries"].contains("nlohmann-json"));  // of headers alone
  const std::string kernels = info["kernels"].text();
  const auto& features = info["processor"]["features"];
  const auto has = [&](const char* name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  if (kernels == "avx512") CHECK(has("avx512f"));
  if (kernels == "avx512_bf16") CHECK(has("avx512_bf16"));
  if (kernels == "amx") CHECK(has("amx_bf16"));
  if (kernels == "avx2") CHECK(has("avx2"));
  CHECK(contains(run("info").out, "kernels    " + kernels + "\n"));
}

TEST_CASE("info lists every library that the program is linked with") {
  // The toolchain's libraries, including sanitizers, are expected.
  const std::set<std::string> toolchain{"c",    "m",     "stdc++", "gcc_s", "pthread",
                                        "asan", "ubsan", "tsan",   "rt",    "dl"};
  const std::map<std::string, std::string> names{
      {"fmt", "fmt"},         {"crypto", "OpenSSL"},      {"gloo", "gloo"},
      {"minizip", "minizip"}, {"tomlplusplus", "toml++"}, {"utf8proc", "utf8proc"},
      {"z", "zlib"}};
  const auto listed = ringlet::Json::parse(run("info --json").out)["libraries"];
  std::istringstream sections(run_program("readelf", {"-d", ringlet_program()}).out);
  std::set<std::string> linked;
  for (std::string line; std::getline(sections, line);)
    if (const auto at = line.find("[lib"); contains(line, "(NEEDED)") && at != line.npos)
      linked.insert(line.substr(at + 4, line.find(".so", at) - at - 4));
  REQUIRE(linked.contains("crypto"));
  for (const std::string& library : linked) {
    if (toolchain.contains(library)) continue;
    CAPTURE(library);
    REQUIRE(names.contains(library));
    REQUIRE(listed.contains(names.at(library)));
    CHECK_NE(listed[names.at(library)], "no");
  }
  if (!linked.contains("gloo")) CHECK_EQ(listed["gloo"], "no");
}

TEST_CASE("info says what there is of CUDA, and plainly where there is none") {
  const auto info = ringlet::Json::parse(run("info --json").out);
  const std::string text = run({"info"}).out;
  std::size_t gpus = 0;
  for (const auto& device : info["devices"]) gpus += device.contains("compute_capability");
  CHECK_EQ(contains(text, "           no CUDA device"), gpus == 0);
  // To the host and back, and between GPUs.
  CHECK_EQ(info["links"].size(), gpus == 0 ? 0 : gpus * (gpus + 1));
  CHECK_EQ(contains(text, "link       "), gpus > 0);
  for (const auto& link : info["links"]) CHECK(link["right"].get<bool>());
  if (info["cuda"].is_null()) {
    CHECK_EQ(gpus, 0);
    CHECK(contains(text, "CUDA       none: this build has no kernels for GPUs\n"));
  } else {
    CHECK(contains(text, "CUDA       built with " + info["cuda"]["toolkit"].text()));
    CHECK_EQ(info["cuda"]["cublas"] == "", gpus == 0);
  }
}

TEST_CASE("info names the instruction set that was asked for, and refuses one that is unknown") {
  ::setenv("RINGLET_ISA", "portable", 1);
  if (ringlet::cpu::supported(ringlet::cpu::Isa::portable))
    CHECK(contains(run("info").out,
                   "kernels    portable\nmatmul     highest f32, high f32, medium f32\n"));
  else
    check_refused(
        run({"info"}),
        "RINGLET_ISA=portable: not of this processor or not allowed by the system, or not "
        "built (Meson option isa)");
  ::setenv("RINGLET_ISA", "mmx", 1);
  check_refused(run({"info"}),
                "RINGLET_ISA=mmx is unknown; expected portable, avx2, avx512, avx512_bf16 or amx");
  ::unsetenv("RINGLET_ISA");
}

TEST_CASE("a link is checked by what arrives") {
  const ringlet::Device first{}, second{ringlet::DeviceType::cpu, 1};
  for (const std::int64_t numel : {1, 1000}) {
    const ringlet::Json link = ringlet::cli::check_link(first, second, numel);
    CHECK_EQ(link["right"], true);
    CHECK(link["bytes_per_second"].number() > 0);
    CHECK_FALSE(link.contains("error"));
  }
  const auto loses_one = [](ringlet::Tensor& to, const ringlet::Tensor& from) {
    to.copy_(from);
    to.slice(17, 18).fill_(0);
  };
  CHECK_EQ(ringlet::cli::check_link(first, second, 1000, loses_one)["right"], false);
  const auto swaps_halves = [](ringlet::Tensor& to, const ringlet::Tensor& from) {
    to.slice(0, 500).copy_(from.slice(500, 1000));
    to.slice(500, 1000).copy_(from.slice(0, 500));
  };
  CHECK_EQ(ringlet::cli::check_link(first, second, 1000, swaps_halves)["right"], false);
  const auto throws = [](ringlet::Tensor&, const ringlet::Tensor&) { ringlet::fail("it rains"); };
  const ringlet::Json broken = ringlet::cli::check_link(first, second, 1000, throws);
  CHECK_EQ(broken["right"], false);
  CHECK_EQ(broken["error"], "it rains");
}

TEST_SUITE_END();
