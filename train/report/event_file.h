// Scalars as TensorBoard reads them: a file of records, each an Event message of protocol buffers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringlet::train {

/// The beginning of the names of TensorBoard's files.
inline constexpr std::string_view kEventFile = "events.out.tfevents.";

/// The CRC32C (Castagnoli) of `bytes`, masked as in TensorFlow's records.
std::uint32_t masked_crc32c(std::string_view bytes);

class EventWriter {
 public:
  /// Starts a new file "events.out.tfevents.SECONDS.HOST.PROCESS" in `folder`. TensorBoard reads it
  /// after the folder's earlier ones, and drops their scalars of steps after `step`. With step 0
  /// the earlier files are removed.
  EventWriter(const std::filesystem::path& folder, std::int64_t step);

  /// Appends the scalars of a step, by name. InputError when the file cannot be written.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace ringlet::train
