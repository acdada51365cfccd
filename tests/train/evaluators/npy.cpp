#include "ringlet/train/evaluators/npy.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/files.h"
#include "ringlet/tests/npy.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("an array is written as NumPy writes it") {
  const TemporaryFolder folder;
  NpyWriter writer(folder / "a.npy", 2, 3);
  writer.write(tensor<float>({1, 2, 3, 4, 5, 6}));
  writer.commit();
  const std::string bytes = read_file(folder / "a.npy");
  const std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  CHECK_EQ(bytes.size(), 128 + 24);
  CHECK_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK_EQ(bytes.substr(10, head.size()), head);
  CHECK_EQ(bytes[127], '\n');
  CHECK_EQ(bytes.substr(128, 4), std::string("\x00\x00\x80\x3f", 4));
}

TEST_CASE("the data of an array of any size begins at a multiple of 64 bytes") {
  const TemporaryFolder folder;
  for (std::int64_t rows = 1; rows < 1'000'000; rows *= 10) {
    NpyWriter writer(folder / "a.npy", rows, 1);
    writer.write(zeros({rows, 1}));
    writer.commit();
    CHECK_EQ(
        (std::filesystem::file_size(folder / "a.npy") - 4 * static_cast<std::uintmax_t>(rows)) % 64,
        0);
    CHECK_EQ(read_npy(folder / "a.npy").shape(), Shape{rows, 1});
  }
}

TEST_CASE("an array is written in pieces, converted, and appears at the end only") {
  const TemporaryFolder folder;
  {
    NpyWriter writer(folder / "a.npy", 3, 2);
    writer.write(tensor<float>({1, 2}));
    CHECK_THROWS_WITH_AS(writer.commit(), "[npy] elements missing at the end: 4 != 0", Error);
    writer.write(tensor<double>({3, 4, 5, 6}));
    CHECK_THROWS_AS(writer.write(tensor<float>({7})), Error);
    CHECK_FALSE(std::filesystem::exists(folder / "a.npy"));
    writer.commit();
  }
  CHECK_EQ(read_npy(folder / "a.npy").to_vector(), std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a full disk leaves nothing behind") {
  const TemporaryFolder folder;
  const FullDisk full(100);
  const auto write = [&] {
    NpyWriter writer(folder / "a.npy", 1000, 1);
    writer.write(zeros({1000}));
    writer.commit();
  };
  CHECK_THROWS_AS(write(), InputError);
  CHECK_EQ(folder.entries(), 0);
}
