#include "ringlet/train/report/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::train {
namespace {

// Protocol buffers: a field is a key, which holds its number and wire type, and then its value.

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

enum Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | wire);
}
std::string message(int field, const std::string& bytes) {
  return key(field, kBytes) + varint(bytes.size()) + bytes;
}

/// The fields of an Event that all have: its time in seconds and its step.
std::string event(double time, std::int64_t step) {
  return key(1, kFixed64) + little_endian(time) + key(2, kVarint) +
         varint(static_cast<std::uint64_t>(step));
}

double unix_time() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);  // Castagnoli's, reversed
  }
  return table;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    crc = kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ crc >> 8;
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t step) {
  if (step == 0)
    for (const std::filesystem::path& path : list_folder(folder))
      if (path.filename().string().starts_with(kEventFile)) remove_path(path);
  const double time = unix_time();
  path_ = folder /
          str(kEventFile, static_cast<std::int64_t>(time), '.', comm::host_name(), '.', ::getpid());
  out_.open(path_, std::ios::binary | std::ios::app);
  append(event(time, 0) + message(3, "brain.Event:2"));  // file_version
  // A SessionLog of status START: later steps in earlier files were not saved.
  if (step > 0) append(event(time, step + 1) + message(7, key(1, kVarint) + varint(1)));
}

void EventWriter::write(std::int64_t step,
                        const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars)
    summary +=
        message(1, message(1, name) + key(2, kFixed32) + little_endian(static_cast<float>(value)));
  append(event(unix_time(), step) + message(5, summary));
}

// A record: length, its CRC, the bytes, their CRC.
void EventWriter::append(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  errno = 0;
  out_ << length << little_endian(masked_crc32c(length)) << event
       << little_endian(masked_crc32c(event)) << std::flush;
  if (!out_) fail_input(path_.string(), ": cannot write: ", std::strerror(errno ? errno : EIO));
}

}  // namespace ringlet::train
