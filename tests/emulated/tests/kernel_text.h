// Small kernels as PTX text, run on the emulated GPU without a launch from nvcc's code.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "../gpu/fault.h"
#include "../gpu/launch.h"
#include "../ptx/decode.h"
#include "tested.h"

namespace ringlet::emulated {

using Words = std::vector<std::uint64_t>;

/// Device memory that the host reads and writes through its view.
class DeviceWords {
 public:
  explicit DeviceWords(const Words& words) : address_(memory().allocate(8 * words.size())) {
    std::memcpy(memory().view(address_), words.data(), 8 * words.size());
    std::memset(memory().written(address_), 0xff, words.size());
  }
  ~DeviceWords() { memory().release(address_); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;

  Address address() const { return address_; }
  std::uint64_t operator[](std::size_t i) const {
    std::uint64_t word = 0;
    std::memcpy(&word, memory().view(address_ + 8 * i), sizeof(word));
    return word;
  }

 private:
  static Region& memory() { return Memory::instance().of(0); }
  Address address_;
};

/// A kernel of the given body. It has registers %p, %h (16 bits), %r, %rd, %f, %d, and %base, which
/// holds the address of its one parameter.
inline std::string kernel_text(const std::string& body, const std::string& variables = "") {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + variables +
         ".visible .entry kernel(.param .u64 memory)\n{\n"
         ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n"
         ".reg .f32 %f<8>;\n.reg .f64 %d<8>;\n.reg .b64 %base;\n"
         "ld.param.u64 %base, [memory];\n" +
         body + "\nret;\n}\n";
}

/// Runs the kernel on `words` and returns them. Throws Fault.
inline Words execute(Kernel& kernel, const Words& words, const LaunchShape& shape,
                     std::uint64_t seed = 1) {
  const DeviceWords memory(words);
  std::vector<std::byte> parameters(sizeof(Address));
  const Address address = memory.address();
  std::memcpy(parameters.data(), &address, sizeof(address));
  static std::uint32_t number = 0;
  const LaunchOrder order{operation_order().add({0, ++number}), {}};
  Launch launch(kernel, shape, parameters, order, seed);
  while (!launch.run(1 << 20)) {
  }
  Words after;
  for (std::size_t i = 0; i < words.size(); ++i) after.push_back(memory[i]);
  return after;
}

/// The same for PTX text that a case has written: its executed instructions count as tested.
inline Words run_kernel(const std::string& text, const Words& words, const LaunchShape& shape,
                        std::uint64_t seed = 1) {
  Module module(text);
  Kernel& kernel = module.kernel("kernel");
  const Words after = execute(kernel, words, shape, seed);
  note_tested(kernel);
  return after;
}

/// The message of the fault, or "" without one.
inline std::string fault_in(const std::string& body, dim3 grid, dim3 block,
                            const std::string& variables = "", std::uint64_t seed = 1) {
  try {
    run_kernel(kernel_text(body, variables), Words(256), {grid, block}, seed);
    return "";
  } catch (const Fault& fault) {
    return fault.what();
  }
}

}  // namespace ringlet::emulated
