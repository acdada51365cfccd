#include "ringlet/train/data/digits.h"

#include <algorithm>
#include <array>
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::train {
namespace {

constexpr std::size_t kMaxDimensions = 4;
constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMaxBytes = std::size_t{1} << 40;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr unsigned kMaxLabel = 9;

/// Appends up to `nbytes` bytes. The memory grows with the data found, not with the size announced.
void read_up_to(const ByteSource& source, std::size_t nbytes, std::vector<std::uint8_t>& into) {
  const std::size_t wanted = into.size() + nbytes;
  while (into.size() < wanted) {
    const std::size_t begin = into.size();
    into.resize(begin + std::min(kChunkBytes, wanted - begin));
    const auto count = source({reinterpret_cast<char*>(into.data()) + begin, into.size() - begin});
    into.resize(begin + count);
    if (count == 0) return;
  }
}

std::vector<std::size_t> read_shape(const ByteSource& source, const std::string& name) {
  std::vector<std::uint8_t> magic;
  read_up_to(source, 4, magic);
  if (magic.size() < 4 || magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedByte ||
      magic[3] == 0 || magic[3] > kMaxDimensions) {
    read_up_to(source, kKindBytes, magic);
    check_kind({reinterpret_cast<const char*>(magic.data()), magic.size()}, name);
    fail_input(name, ": expected an IDX file of unsigned bytes with 1 to ", kMaxDimensions,
               " dimensions");
  }
  std::vector<std::uint8_t> sizes;
  read_up_to(source, 4 * std::size_t{magic[3]}, sizes);
  if (sizes.size() != 4 * std::size_t{magic[3]}) fail_input(name, ": the IDX header is cut short");
  std::vector<std::size_t> shape;
  for (std::size_t i = 0; i < sizes.size(); i += 4) {
    shape.push_back(std::size_t{sizes[i]} << 24 | std::size_t{sizes[i + 1]} << 16 |
                    std::size_t{sizes[i + 2]} << 8 | std::size_t{sizes[i + 3]});
  }
  return shape;
}

std::size_t count_bytes(const std::vector<std::size_t>& shape, const std::string& name) {
  std::size_t nbytes = 1;
  for (const std::size_t size : shape) {
    if (size != 0 && nbytes > kMaxBytes / size) {
      fail_input(name, ": the IDX header promises more than ", kMaxBytes, " bytes");
    }
    nbytes *= size;
  }
  return nbytes;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  const ByteSource source = open_bytes(path);
  const std::string name = path.string();
  IdxArray array;
  array.shape = read_shape(source, name);
  const std::size_t nbytes = count_bytes(array.shape, name);
  read_up_to(source, nbytes, array.data);
  if (array.data.size() != nbytes) {
    fail_input(name, ": expected ", nbytes, " bytes behind the IDX header, found ",
               array.data.size());
  }
  std::array<char, 1> extra{};
  if (source(extra) != 0) fail_input(name, ": expected the end after ", nbytes, " bytes of data");
  array.data.shrink_to_fit();
  return array;
}

std::string idx_bytes(const IdxArray& array) {
  RINGLET_CHECK(!array.shape.empty() && array.shape.size() <= kMaxDimensions,
                "[idx_bytes] expected 1 to ", kMaxDimensions, " dimensions, not ",
                array.shape.size());
  RINGLET_CHECK_EQ(count_bytes(array.shape, "[idx_bytes]"), array.data.size(),
                   "[idx_bytes] bytes of the shape and of the data");
  std::string bytes{0, 0, static_cast<char>(kUnsignedByte), static_cast<char>(array.shape.size())};
  for (const std::size_t size : array.shape) {
    RINGLET_CHECK(size <= 0xFFFFFFFFu, "[idx_bytes] size ", size, " exceeds 32 bits");
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xFF);
  }
  bytes.append(array.data.begin(), array.data.end());
  return bytes;
}

Digits read_digits(const std::filesystem::path& images, const std::filesystem::path& labels) {
  IdxArray pixels = read_idx(images);
  IdxArray classes = read_idx(labels);
  if (pixels.shape.size() != 3) {
    fail_input(images.string(), ": expected 3 dimensions, found ", pixels.shape.size());
  }
  if (classes.shape.size() != 1) {
    fail_input(labels.string(), ": expected 1 dimension, found ", classes.shape.size());
  }
  if (classes.shape[0] != pixels.shape[0]) {
    fail_input(labels.string(), ": expected ", pixels.shape[0], " labels, found ",
               classes.shape[0]);
  }
  if (pixels.data.empty()) fail_input(images.string(), ": empty: expected at least one digit");
  for (std::size_t i = 0; i < classes.data.size(); ++i) {
    if (classes.data[i] > kMaxLabel) {
      fail_input(labels.string(), ": label ", unsigned{classes.data[i]}, " of digit ", i,
                 " is out of range: expected 0 to ", kMaxLabel);
    }
  }
  return {pixels.shape[0], pixels.shape[1], pixels.shape[2], std::move(pixels.data),
          std::move(classes.data)};
}

DigitBatch collate_digits(const Digits& digits, const Rows& rows) {
  const std::size_t pixels = digits.height * digits.width;
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> positions;
  images.reserve(rows.size() * pixels);
  for (const std::size_t row : rows) {
    RINGLET_CHECK(row < digits.count, "[collate_digits] row ", row, " of ", digits.count);
    for (std::size_t i = row * pixels; i < (row + 1) * pixels; ++i)
      images.push_back(static_cast<float>((digits.pixels[i] / 255.0 - kDigitMean) / kDigitStd));
    positions.insert(positions.end(), {static_cast<std::int32_t>(rows.first + labels.size()), 0});
    labels.push_back(digits.labels[row]);
  }
  const auto n = static_cast<std::int64_t>(rows.size());
  return {tensor(images,
                 {n, 1, static_cast<std::int64_t>(digits.height),
                  static_cast<std::int64_t>(digits.width)},
                 Device{}),
          tensor(labels, {n}, Device{}), tensor(positions, {n, 2}, Device{})};
}

}  // namespace ringlet::train
