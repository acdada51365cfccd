// `ringlet info`: what this build is made of and what this machine offers it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <toml++/toml.h>
#include <unistd.h>
#include <utf8proc.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "ringlet/comm/engines.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/cuda/info.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/machine.h"

namespace ringlet::cli {
namespace {

/// The processor's features that kernels can use.
std::vector<std::string> cpu_features() {
  constexpr std::array kKnown{"sse4_2",   "avx",         "fma",         "avx2",
                              "f16c",     "avx512f",     "avx512bw",    "avx512dq",
                              "avx512vl", "avx512_bf16", "avx512_fp16", "amx_tile",
                              "amx_bf16", "amx_int8",    "asimd",       "sve"};
  std::istringstream flags(cpuinfo("flags") + ' ' + cpuinfo("Features"));
  std::vector<std::string> present;
  for (std::string flag; flags >> flag;)
    if (std::find(kKnown.begin(), kKnown.end(), flag) != kKnown.end()) present.push_back(flag);
  return present;
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

Json libraries() {
  return {{"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          // gloo and minizip do not say their versions.
          {"gloo", comm::has_gloo() ? "yes" : "no"},
          {"minizip", "yes"},
          {"nlohmann-json", json_version()},
          {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING)},
          {"toml++", fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH)},
          {"utf8proc", utf8proc_version()},
          {"zlib", zlibVersion()}};
}

/// How an f32 product is computed at each --matmul-precision.
Json matmul_precisions() {
  switch (cpu::isa()) {
    case cpu::Isa::amx:
      return {{"highest", "f32"}, {"high", "three AMX products"}, {"medium", "one AMX product"}};
    case cpu::Isa::avx512_bf16:
      return {{"highest", "f32"}, {"high", "f32"}, {"medium", "bf16 (VDPBF16PS)"}};
    default:
      return {{"highest", "f32"}, {"high", "f32"}, {"medium", "f32"}};
  }
}

/// Page sizes of the memory of tensors and scratch. Ranks on one host read shared memory.
Json pages() {
  const cpu::HugePages huge = cpu::huge_pages();
  const auto size = [](bool is_huge) {
    return is_huge ? std::int64_t{2} << 20 : static_cast<std::int64_t>(::sysconf(_SC_PAGE_SIZE));
  };
  return {{"private", size(huge.for_private)}, {"shared", size(huge.for_shared)}};
}

Json devices() {
  Json list = Json::array();
  list.push_back({{"name", "cpu:0"}, {"threads", threads_per_device()}});
  return list;
}

/// That `auto` chooses for ranks with a GPU each, of all GPUs; null without several.
Json algorithm_of_threads() {
  if (!has_backend(DeviceType::cuda)) return nullptr;
  std::vector<Device> all;
  for (int i = 0; i < backend(DeviceType::cuda).device_count(); ++i)
    all.push_back({DeviceType::cuda, i});
  if (all.size() < 2) return nullptr;
  return comm::name(comm::can_launch_once(all) ? comm::Algorithm::in_kernel_direct
                                               : comm::Algorithm::direct);
}

Json collect() {
  const auto count = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  const Json machine = machine_json(cuda::info(), check_links(DeviceType::cuda));
  Json all_devices = devices();
  for (const Json& gpu : machine["gpus"]) all_devices.push_back(gpu);
  return {{"version", RINGLET_VERSION},
          {"commit", commit()},
          {"compiler", compiler()},
          {"devices", all_devices},
          {"cuda", machine["cuda"]},
          {"links", machine["links"]},
          {"algorithm_of_threads", algorithm_of_threads()},
          {"processor",
           {{"name", cpuinfo("model name")},
            {"count", ::sysconf(_SC_NPROCESSORS_ONLN)},
            {"features", cpu_features()}}},
          {"kernels", cpu::name(cpu::isa())},
          {"matmul_precision", matmul_precisions()},
          {"memory_bytes", count * page},
          {"page_bytes", pages()},
          {"libraries", libraries()}};
}

/// "fmt 9.1.0, gloo yes"
std::string listed(const Json& object) {
  std::string all;
  for (const auto& [name, value] : object.items())
    all += str(all.empty() ? "" : ", ", name, ' ', value.text());
  return all;
}

constexpr double kGibibyte = 1 << 30;

std::string shown_device(const Json& device) {
  const auto name = device["name"].text();
  if (device.contains("threads"))
    return fmt::format("{}, {} threads", name, device["threads"].get<int>());
  std::string peers;
  for (std::size_t i = 0; i < device["peers"].size(); ++i)
    if (device["peers"][i].get<bool>()) peers += fmt::format(" cuda:{}", i);
  return fmt::format("{}, {}, compute capability {}, {} multiprocessors, {:.1f} GiB{}", name,
                     device["model"].text(), device["compute_capability"].text(),
                     device["multiprocessors"].get<int>(),
                     device["memory_bytes"].get<double>() / kGibibyte,
                     peers.empty() ? "" : ", reads" + peers);
}

std::string shown_link(const Json& link) {
  const std::string what =
      link.contains("error") ? link["error"].text()
      : !link["right"].get<bool>()
          ? "what arrives is not what was sent"
          : fmt::format("{:.1f} GB/s, checked", 1e-9 * link["bytes_per_second"].get<double>());
  return fmt::format("{} to {}: {}", link["from"].text(), link["to"].text(), what);
}

std::string shown_cuda(const Json& cuda) {
  if (cuda.is_null()) return "none: this build has no kernels for GPUs";
  const auto or_none = [&](const char* what) {
    const auto version = cuda[what].text();
    return version.empty() ? std::string("none") : version;
  };
  const std::string release = or_none("driver_release");
  const std::string driver = release == "none"
                                 ? or_none("driver")
                                 : fmt::format("{} (up to CUDA {})", release, or_none("driver"));
  return fmt::format("built with {} for {}; here: driver {}, cuBLAS {}, NCCL {}",
                     or_none("toolkit"), or_none("architectures"), driver, or_none("cublas"),
                     or_none("nccl"));
}

void print_text(const Json& info) {
  fmt::print("ringlet {}, commit {}, built with {}\n", info["version"].text(),
             info["commit"].text(), info["compiler"].text());
  bool cuda = false;
  for (const Json& device : info["devices"]) {
    cuda = cuda || device.contains("model");
    fmt::print("device     {}\n", shown_device(device));
  }
  if (!cuda) fmt::print("           {}\n", no_device(DeviceType::cuda));
  fmt::print("CUDA       {}\n", shown_cuda(info["cuda"]));
  for (const Json& link : info["links"]) fmt::print("link       {}\n", shown_link(link));
  if (!info["algorithm_of_threads"].is_null())
    fmt::print("ranks      threads with a GPU each sum by {}\n",
               info["algorithm_of_threads"].text());
  const Json& processor = info["processor"];
  fmt::print("processor  {} x {}\n", processor["count"].get<int>(), processor["name"].text());
  fmt::print("features   {}\n",
             fmt::join(processor["features"].get<std::vector<std::string>>(), " "));
  fmt::print("kernels    {}\n", info["kernels"].text());
  fmt::print("matmul     {}\n", listed(info["matmul_precision"]));
  fmt::print("memory     {:.1f} GiB\n", info["memory_bytes"].get<double>() / kGibibyte);
  const auto kib = [&](const char* memory) {
    return info["page_bytes"][memory].get<std::int64_t>() >> 10;
  };
  fmt::print("pages      {} KiB, {} KiB of memory that ranks share\n", kib("private"),
             kib("shared"));
  fmt::print("libraries  {}\n", listed(info["libraries"]));
}

}  // namespace

void add_info(Command& program) {
  Command& command = program.add_command("info", "Devices, CPU features, libraries and versions");
  const auto as_json = std::make_shared<bool>(false);
  command.add("--json", *as_json, "Print one JSON object");
  command.run = [as_json] {
    const Json info = collect();
    if (*as_json)
      fmt::print("{}\n", info.dump(2));
    else
      print_text(info);
    for (const Json& link : info["links"])
      if (!link["right"].get<bool>()) fail(shown_link(link));
  };
}

}  // namespace ringlet::cli
