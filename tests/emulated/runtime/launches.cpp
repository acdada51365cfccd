// Kernel registration by nvcc's host code, and launches.
#include <cstring>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "../emulated.h"
#include "../gpu/fault.h"
#include "../ptx/decode.h"
#include "calls.h"
#include "limits.h"
#include "ptx_files.h"
#include "registers.h"
#include "report.h"

namespace {

using namespace ringlet::emulated;

// The embedded binary: a header, then PTX text or a GPU's code.
struct FatBinary {
  int magic, version;
  const char* data;
  void* file;
};
constexpr std::size_t kHeaderBytes = 16, kSizeAt = 8;

std::string text_of(const FatBinary& binary) {
  std::uint64_t nbytes = 0;
  std::memcpy(&nbytes, binary.data + kSizeAt, sizeof(nbytes));
  const std::string all(binary.data, kHeaderBytes + nbytes);
  const auto begin = all.find(".version");
  return begin == std::string::npos ? "" : all.substr(begin, all.find('\0', begin) - begin);
}

struct RegisteredModule {
  const FatBinary* binary = nullptr;
  std::unique_ptr<Module> module;

  Kernel& kernel(const std::string& name) {
    if (!module) {
      const std::string embedded = text_of(*binary);
      module = std::make_unique<Module>(defines(embedded, name) ? embedded : ptx_with(name));
    }
    return module->kernel(name);
  }
};

struct Registered {
  RegisteredModule* module = nullptr;
  std::string name;
  Kernel* found = nullptr;
  unsigned loaded = 0;                           // a bit for each device
  std::size_t dynamic_bytes = kSharedByDefault;  // that a launch may ask for

  /// Loads it at the first use on each device.
  Kernel& kernel(Call& call) {
    const unsigned here = 1u << current_device();
    if ((loaded & here) == 0) call.streams().delay_call(call.lock(), plain_name(name).c_str());
    loaded |= here;
    if (!found) {
      found = &module->kernel(name);
      found->registers = registers_of(name);
      report_at_exit(*found);
    }
    return *found;
  }
};

// Never destroyed: registered before main() and used until exit.
std::unordered_map<const void*, Registered>& functions() {
  static auto* const all = new std::unordered_map<const void*, Registered>;
  return *all;
}

struct Configuration {
  dim3 grid, block;
  std::size_t dynamic_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local Configuration configuration;

std::vector<std::byte> pack(const Kernel& kernel, void** arguments) {
  std::vector<std::byte> packed(kernel.parameter_bytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& parameter = kernel.parameters[i];
    std::memcpy(packed.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return packed;
}

bool is_possible(const Registered& function, const Kernel& kernel, const LaunchShape& shape) {
  const dim3 &grid = shape.grid, &block = shape.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && threads > 0 && grid.x <= INT32_MAX &&
         grid.y <= kGridOfOthers && grid.z <= kGridOfOthers && block.z <= kBlockOfZ &&
         threads <= std::min<std::uint64_t>(kThreadsOfBlock, kernel.most_threads) &&
         kernel.shared_bytes + shape.dynamic_bytes <=
             std::max<std::size_t>(function.dynamic_bytes, kernel.shared_bytes);
}

StreamOperation launch_of(Kernel& kernel, const LaunchShape& shape,
                          std::vector<std::byte> parameters) {
  const auto start = [&kernel, shape,
                      parameters = std::move(parameters)](const LaunchOrder& order) -> Step {
    const std::uint64_t seed =
        settings().seed == 0 ? 0 : settings().seed * 1000003 + order.operation;
    auto launch = std::make_shared<Launch>(kernel, shape, parameters, order, seed);
    return [launch] { return launch->run(kSlice); };
  };
  return {kernel.name, start, {}, kernel.acquires};
}

cudaError_t launch(const void* function, LaunchShape shape, void** arguments, cudaStream_t to) {
  Call call;
  const auto found = functions().find(function);
  if (found == functions().end()) return note(cudaErrorInvalidDeviceFunction);
  Registered& known = found->second;
  Stream* const stream = call.streams().of(to);
  shape.device = stream->device;
  Kernel& kernel = known.kernel(call);
  if (!is_possible(known, kernel, shape)) return note(cudaErrorInvalidConfiguration);
  if (!has_registers(kernel, std::size_t{shape.block.x} * shape.block.y * shape.block.z))
    return note(cudaErrorLaunchOutOfResources);
  const std::uint64_t blocks = std::uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  const std::size_t threads = std::size_t{shape.block.x} * shape.block.y * shape.block.z;
  if (shape.cooperative && blocks > static_cast<std::uint64_t>(kMultiprocessors) *
                                        static_cast<std::uint64_t>(blocks_of_multiprocessor(
                                            kernel, threads, shape.dynamic_bytes)))
    return note(cudaErrorCooperativeLaunchTooLarge);
  call.streams().delay_launch(call.lock());
  call.streams().enqueue(stream, launch_of(kernel, shape, pack(kernel, arguments)));
  return cudaSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  return reinterpret_cast<void**>(
      new RegisteredModule{static_cast<const FatBinary*>(binary), nullptr});
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  functions()[host] = {reinterpret_cast<RegisteredModule*>(module), name};
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t bytes,
                                     cudaStream_t stream) {
  configuration = {grid, block, bytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* bytes, void* stream) {
  *grid = configuration.grid, *block = configuration.block, *bytes = configuration.dynamic_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t bytes, cudaStream_t stream) {
  return launch(kernel, {grid, block, bytes, false, 0}, arguments, stream);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t bytes, cudaStream_t stream) {
  return launch(function, {grid, block, bytes, false, 0}, arguments, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, std::size_t bytes, cudaStream_t stream) {
  return launch(function, {grid, block, bytes, true, 0}, arguments, stream);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  Call call;
  Registered& known = functions().at(function);
  const std::size_t fixed = known.kernel(call).shared_bytes;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) + fixed > kSharedOfBlock)
    return note(cudaErrorInvalidValue);
  known.dynamic_bytes = fixed + static_cast<std::size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  Call call;
  const Kernel& kernel = functions().at(function).kernel(call);
  *attributes = {};
  attributes->maxThreadsPerBlock = static_cast<int>(kernel.most_threads);
  attributes->sharedSizeBytes = kernel.shared_bytes;
  attributes->localSizeBytes = kernel.local_bytes;
  attributes->numRegs = kernel.registers;
  attributes->ptxVersion = kernel.architecture;
  attributes->binaryVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, std::size_t bytes,
                                                                   unsigned) {
  Call call;
  *blocks = blocks_of_multiprocessor(functions().at(function).kernel(call),
                                     static_cast<std::size_t>(threads), bytes);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, std::size_t bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, bytes,
                                                                0);
}
}
