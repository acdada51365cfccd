// System calls that fail, in a child process.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "child.h"

/// A system call that fails if an argument equals a number, or if it does not.
struct Refusal {
  long call;
  std::size_t argument;
  std::uint32_t number;  // its low 32 bits
  bool where_equal;
  int error;
};

/// Starts to refuse them in this process; false if the kernel cannot filter calls.
inline bool refuse(const std::vector<Refusal>& refusals) {
  std::vector<sock_filter> code;
  const auto load = [&](std::size_t offset) {
    code.push_back({BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(offset)});
  };
  const auto jump = [&](std::uint32_t number, std::uint8_t equal, std::uint8_t otherwise) {
    code.push_back({BPF_JMP | BPF_JEQ | BPF_K, equal, otherwise, number});
  };
  const auto answer = [&](std::uint32_t value) { code.push_back({BPF_RET | BPF_K, 0, 0, value}); };
  for (const Refusal& one : refusals) {
    load(offsetof(seccomp_data, nr));
    jump(static_cast<std::uint32_t>(one.call), 0, 3);
    load(offsetof(seccomp_data, args) + one.argument * sizeof(std::uint64_t));
    jump(one.number, !one.where_equal, one.where_equal);
    answer(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(one.error));
  }
  answer(SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

inline constexpr int kNoSeccomp = 77;

/// The exit code of body() in a child process; none if the kernel cannot filter calls.
template <class Body>
std::optional<int> in_child(Body body) {
  const int code = exit_code_of(body);
  if (code != kNoSeccomp) return code;
  MESSAGE("skipped: needs seccomp");
  return std::nullopt;
}
