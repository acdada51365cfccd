#include "ringlet/train/cli/pipes.h"

#include <array>

#include "ringlet/train/data/kept_input.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::cli {
namespace {

std::string read_all(const std::string& file) {
  const train::ByteSource source = train::open_bytes(file);
  std::array<char, std::size_t{1} << 16> block;
  std::string bytes;
  while (const std::size_t count = source(block)) bytes.append(block.data(), count);
  return bytes;
}

}  // namespace

void read_pipes(const std::vector<std::string>& files, const comm::Group& world) {
  for (const std::string& file : files) {
    if (file.empty()) continue;
    // Rank 0 decides: /dev/fd/63 may be another file elsewhere.
    const bool once = world.rank() == 0 && train::is_read_once(file);
    std::string bytes = once ? '+' + read_all(file) : "";
    if (world.size() > 1) bytes = world.all_gather_bytes(bytes)[0];
    if (!bytes.empty()) train::keep_input(file, bytes.substr(1));
  }
}

void read_pipe(const std::string& option, const std::string& file, int readers) {
  if (!train::is_read_once(file)) return;
  if (readers > 1)
    fail_input(option, ' ', file, ": expected a regular file, which each of the ", readers,
               " ranks can read, found a pipe, a device or standard input");
  train::keep_input(file, read_all(file));
}

}  // namespace ringlet::cli
