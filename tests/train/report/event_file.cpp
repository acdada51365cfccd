#include "ringlet/train/report/event_file.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "../../files.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/report/metrics.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::train;

namespace {

template <class T>
T take(std::string_view& bytes) {
  REQUIRE(bytes.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

std::string_view take(std::string_view& bytes, std::size_t count) {
  REQUIRE(bytes.size() >= count);
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/// The fields of a message by number: the raw bytes of each value.
std::multimap<int, std::string> fields(std::string_view bytes) {
  std::multimap<int, std::string> found;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    const int field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        found.emplace(field, std::to_string(take_varint(bytes)));
        break;
      case 1:
        found.emplace(field, take(bytes, 8));
        break;
      case 2:
        found.emplace(field, take(bytes, take_varint(bytes)));
        break;
      case 5:
        found.emplace(field, take(bytes, 4));
        break;
      default:
        FAIL("wire type " << (key & 7));
    }
  }
  return found;
}

/// The events of a file, as fields; the CRCs of every record are right.
std::vector<std::multimap<int, std::string>> events(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  std::vector<std::multimap<int, std::string>> all;
  for (std::string_view bytes = file; !bytes.empty();) {
    const std::string_view length = bytes.substr(0, 8);
    const auto size = take<std::uint64_t>(bytes);
    CHECK_EQ(take<std::uint32_t>(bytes), masked_crc32c(length));
    const std::string_view event = take(bytes, size);
    CHECK_EQ(take<std::uint32_t>(bytes), masked_crc32c(event));
    all.push_back(fields(event));
  }
  return all;
}

std::string only(const std::multimap<int, std::string>& fields, int field) {
  REQUIRE_EQ(fields.count(field), 1);
  return fields.find(field)->second;
}

/// {tag, value} of each scalar.
std::vector<std::pair<std::string, float>> scalars(const std::multimap<int, std::string>& event) {
  std::vector<std::pair<std::string, float>> all;
  const auto summary = fields(only(event, 5));
  for (const auto& [field, value] : summary) {
    CHECK_EQ(field, 1);
    const auto one = fields(value);
    const std::string bytes = only(one, 2);
    std::string_view view = bytes;
    all.emplace_back(only(one, 1), take<float>(view));
  }
  return all;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& path : list_folder(folder))
    if (path.filename().string().starts_with(kEventFile)) found.push_back(path);
  return found;
}

}  // namespace

// RFC 3720, B.4: 32 bytes of zeros, and of ones; and the string of the usual check value.
TEST_CASE("the CRC is Castagnoli's, rotated and offset as in TensorFlow's records") {
  const auto unmasked = [](std::string_view bytes) {
    return std::rotl(masked_crc32c(bytes) - 0xa282ead8u, 15);
  };
  CHECK_EQ(unmasked(std::string(32, '\0')), 0x8a9136aau);
  CHECK_EQ(unmasked(std::string(32, '\xff')), 0x62a8ab43u);
  CHECK_EQ(unmasked("123456789"), 0xe3069283u);
}

TEST_CASE("metrics are scalars of Events, a record each") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0);
  writer.write(10, {{"loss", 1.25}, {"lr", 2e-5}});
  writer.write(300, {{"spearman", std::numeric_limits<double>::quiet_NaN()}});
  REQUIRE_EQ(files_in(folder.path()).size(), 1);
  const auto all = events(files_in(folder.path())[0]);
  REQUIRE_EQ(all.size(), 3);
  CHECK_EQ(only(all[0], 3), "brain.Event:2");
  CHECK_EQ(only(all[1], 2), "10");
  CHECK(scalars(all[1]) ==
        std::vector<std::pair<std::string, float>>{{"loss", 1.25f}, {"lr", 2e-5f}});
  CHECK_EQ(only(all[2], 2), "300");
  REQUIRE_EQ(scalars(all[2]).size(), 1);
  CHECK(std::isnan(scalars(all[2])[0].second));
  double time = 0;
  std::memcpy(&time, only(all[1], 1).data(), sizeof(time));
  CHECK(time > 1.7e9);  // seconds since 1970
}

TEST_CASE("a resumed run's file restarts at its step; one that starts anew removes the earlier") {
  const TemporaryFolder folder;
  const auto name = [&](const char* rest) { return folder / (std::string(kEventFile) + rest); };
  write_file(name("1.earlier"), "");
  write_file(folder / "other", "");
  EventWriter(folder.path(), 20);
  REQUIRE_EQ(files_in(folder.path()).size(), 2);
  const auto all = events(files_in(folder.path())[1]);
  REQUIRE_EQ(all.size(), 2);
  CHECK_EQ(only(all[1], 2), "21");
  CHECK_EQ(only(fields(only(all[1], 7)), 1), "1");  // SessionLog.START
  EventWriter(folder.path(), 0);
  CHECK_EQ(files_in(folder.path()).size(), 1);
  CHECK(path_exists(folder / "other"));
}

TEST_CASE("the figures of metrics.jsonl are those of the events") {
  const TemporaryFolder folder;
  MetricsWriter writer(folder / "metrics.jsonl", 0, /*tensorboard=*/true);
  writer.write(5, 0.5, {{"loss", 0.5}, {"grad_norm", 3}});
  CHECK_EQ(read_file(folder / "metrics.jsonl"),
           "{\"step\":5,\"epoch\":0.5,\"loss\":0.5,\"grad_norm\":3}\n");
  const auto all = events(files_in(folder.path()).at(0));
  REQUIRE_EQ(all.size(), 2);
  CHECK(scalars(all[1]) ==
        std::vector<std::pair<std::string, float>>{{"loss", 0.5f}, {"grad_norm", 3}});
}

TEST_CASE("a file that cannot be written is named") {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  CHECK_THROWS_WITH_AS(EventWriter(missing, 1), doctest::Contains(missing.c_str()), InputError);
}

TEST_SUITE_END();
