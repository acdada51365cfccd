#include <doctest/doctest.h>
#include <filesystem>
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/tests/files.h"
#include "ringlet/tests/gzip.h"
#include "ringlet/train/data/digits.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("digits become normalised images that know their place in the step") {
  const Digits digits{.count = 3,
                      .height = 1,
                      .width = 2,
                      .pixels = {0, 255, 51, 0, 255, 255},
                      .labels = {7, 8, 9}};
  const std::size_t rows[] = {2, 0};
  const DigitBatch batch = collate_digits(digits, Rows(rows, /*first=*/4));
  CHECK(batch.images.shape() == Shape{2, 1, 1, 2});
  const float ink = static_cast<float>((1 - kDigitMean) / kDigitStd);
  const float paper = static_cast<float>(-kDigitMean / kDigitStd);
  CHECK(batch.images.to_vector() == std::vector<float>{ink, ink, paper, ink});
  CHECK(batch.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{9, 7});
  CHECK(batch.positions.to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 0, 5, 0});

  const std::size_t beyond[] = {3};
  CHECK_THROWS_AS(collate_digits(digits, Rows(beyond)), Error);
  CHECK(collate_digits(digits, Rows({})).images.shape() == Shape{0, 1, 1, 2});
}

namespace {

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  write_file(path, idx_bytes(array));
}

}  // namespace

TEST_CASE("idx: arrays come back, plain or packed") {
  const TemporaryFolder folder;
  const IdxArray array{{2, 3}, {1, 2, 3, 4, 5, 255}};
  write_idx(folder / "a-ubyte", array);
  write_gzip(folder / "a-ubyte.gz", idx_bytes(array));
  for (const char* name : {"a-ubyte", "a-ubyte.gz"}) {
    const IdxArray back = read_idx(folder / name);
    CHECK(back.shape == array.shape);
    CHECK(back.data == array.data);
  }
  using namespace std::string_literals;
  CHECK(read_file(folder / "a-ubyte") ==
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01\x02\x03\x04\x05\xFF"s);
}

TEST_CASE("idx: headers that lie are refused") {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    write_file(folder / "a", bytes);
    return read_idx(folder / "a");
  };
  const std::string a = (folder / "a").string();
  CHECK(read("\0\0\x08\x01\0\0\0\x02xy"s).data == std::vector<std::uint8_t>{'x', 'y'});
  CHECK(read("\0\0\x08\x01\0\0\0\0"s).data.empty());
  CHECK_THROWS_WITH_AS(read("\0\0\x08\x01\0\0\0\x03xy"s),
                       (a + ": expected 3 bytes behind the IDX header, found 2").c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(read("\0\0\x08\x01\0\0\0\x01xy"s),
                       (a + ": expected the end after 1 bytes of data").c_str(), InputError);
  CHECK_THROWS_AS(read("\0\0\x0D\x01\0\0\0\x01xxxx"s), InputError);  // floats
  CHECK_THROWS_AS(read("\0\0\x08\0"s), InputError);                  // no dimensions
  CHECK_THROWS_AS(read("\0\0\x08\x09"s), InputError);                // too many
  CHECK_THROWS_AS(read("\0\0\x08\x02\0\0\0\x01"s), InputError);      // cut
  CHECK_THROWS_AS(read(""), InputError);
  // A product that overflows 64 bits, and one byte in place of 2 GiB.
  CHECK_THROWS_AS(read("\0\0\x08\x04"s + std::string(16, '\xFF') + "x"), InputError);
  CHECK_THROWS_AS(read("\0\0\x08\x01\x7F\xFF\xFF\xFFx"s), InputError);
}

TEST_CASE("digits: images and labels must belong together") {
  const TemporaryFolder folder;
  write_idx(folder / "images", {{2, 1, 2}, {0, 255, 255, 0}});
  write_idx(folder / "labels", {{2}, {3, 9}});
  const Digits digits = read_digits(folder / "images", folder / "labels");
  CHECK_EQ(digits.count, 2);
  CHECK_EQ(digits.height, 1);
  CHECK_EQ(digits.width, 2);
  CHECK_EQ(digits.labels[1], 9);
  write_idx(folder / "labels", {{2}, {3, 10}});
  CHECK_THROWS_WITH_AS(
      read_digits(folder / "images", folder / "labels"),
      ((folder / "labels").string() + ": label 10 of digit 1 is out of range: expected 0 to 9")
          .c_str(),
      InputError);
  write_idx(folder / "labels", {{3}, {1, 2, 3}});
  CHECK_THROWS_AS(read_digits(folder / "images", folder / "labels"), InputError);
  CHECK_THROWS_AS(read_digits(folder / "labels", folder / "labels"), InputError);
  write_idx(folder / "images", {{0, 28, 28}, {}});
  write_idx(folder / "labels", {{0}, {}});
  CHECK_THROWS_AS(read_digits(folder / "images", folder / "labels"), InputError);
}

TEST_CASE("digits: the real MNIST test set") {
  const auto images = real_data("mnist/t10k-images-idx3-ubyte.gz");
  if (images.empty()) return;
  const Digits digits = read_digits(images, real_data("mnist/t10k-labels-idx1-ubyte.gz"));
  CHECK_EQ(digits.count, 10'000);
  CHECK_EQ(digits.height, 28);
  CHECK_EQ(digits.width, 28);
  CHECK_EQ(digits.labels[0], 7);
}
