// How a program ends: the one place where errors become exit codes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::cli {

inline constexpr int kError = 1;
inline constexpr int kBadInput = 2;

/// Thrown by a command that has said all and ends with this code.
struct Exit {
  int code;
};

/// Thrown by a command that a signal ended; the exit code is 128 + the signal, as in a shell.
class Interrupted : public Error {
 public:
  Interrupted(int signal, const std::string& message) : Error(message), signal(signal) {}
  int signal;
};

/// Says "PROGRAM: MESSAGE" in one line on stderr; returns `code`.
inline int report(const char* program, std::string message, int code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "%s: %s\n", program, one_line(message).c_str());
  return code;
}

/// InputError if printed output was not written, e.g. redirected to a full disk.
inline void check_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    fail_input("standard output: cannot write");
}

/// Opens closed descriptors 0 to 2 on /dev/null: files would get these numbers, and printed lines.
inline void open_standard_streams() {
  int fd = STDIN_FILENO;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

/// Returns body(), or the code of Exit. Prints an error in one line and returns its code: 2 for bad
/// input or lost standard output, 128 + signal for an interrupt, otherwise 1.
template <class Body>
int exit_code(const char* program, Body&& body) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails with EFBIG
  try {
    const int code = body();
    if (code == 0) check_output();
    return code;
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const InputError& error) {
    return report(program, error.what(), kBadInput);
  } catch (const Interrupted& end) {
    return report(program, end.what(), 128 + end.signal);
  } catch (const std::filesystem::filesystem_error& error) {
    return report(program, error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return report(program, "out of memory", kError);
  } catch (const std::exception& error) {
    return report(program, error.what(), kError);
  }
}

}  // namespace ringlet::cli
