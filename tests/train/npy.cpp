#include "ringlet/train/npy.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "ringlet/tests/files.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("an array is written as NumPy writes it") {
  const TemporaryFolder folder;
  write_npy(folder / "a.npy", tensor<float>({1, 2, 3, 4, 5, 6}).view({2, 3}));
  const std::string bytes = read_file(folder / "a.npy");
  const std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  CHECK_EQ(bytes.size(), 128 + 24);
  CHECK_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK_EQ(bytes.substr(10, head.size()), head);
  CHECK_EQ(bytes[127], '\n');
  CHECK_EQ(bytes.substr(128, 4), std::string("\x00\x00\x80\x3f", 4));
}

TEST_CASE("an array of any shape and dtype is read as it was written") {
  const TemporaryFolder folder;
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{0, 4}, Shape{2, 1, 5}}) {
    for (const DType dtype :
         {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8}) {
      const Tensor values = full(shape, 7, dtype);
      write_npy(folder / "a.npy", values);
      const Tensor back = read_npy(folder / "a.npy");
      CHECK_EQ(back.shape(), shape);
      CHECK_EQ(back.dtype(), dtype);
      CHECK_EQ(back.to_vector<double>(), values.to_vector<double>());
    }
  }
}

TEST_CASE("an array is written in pieces, converted, and appears at the end only") {
  const TemporaryFolder folder;
  {
    NpyWriter writer(folder / "a.npy", {3, 2}, DType::bf16);
    writer.write(tensor<float>({1, 2}));
    CHECK_THROWS_WITH_AS(writer.commit(), "[npy] elements missing at the end: 4 != 0", Error);
    writer.write(tensor<double>({3, 4, 5, 6}));
    CHECK_THROWS_AS(writer.write(tensor<float>({7})), Error);
    CHECK_FALSE(std::filesystem::exists(folder / "a.npy"));
    writer.commit();
  }
  CHECK_EQ(read_npy(folder / "a.npy").to_vector(), std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK_EQ(read_npy(folder / "a.npy").dtype(), DType::f32);
}

TEST_CASE("a full disk leaves nothing behind") {
  const TemporaryFolder folder;
  const FullDisk full(100);
  CHECK_THROWS_AS(write_npy(folder / "a.npy", zeros({1000})), InputError);
  CHECK_EQ(folder.entries(), 0);
}

TEST_CASE("damaged files are refused") {
  const TemporaryFolder folder;
  write_npy(folder / "good.npy", zeros({2, 3}));
  const std::string good = read_file(folder / "good.npy");
  const auto refused = [&](std::string bytes) {
    write_file(folder / "bad.npy", bytes);
    CHECK_THROWS_AS(read_npy(folder / "bad.npy"), InputError);
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    return bytes.replace(bytes.find(from), from.size(), to);
  };
  refused("");
  refused("PK\x03\x04");
  refused(good.substr(0, 40));
  refused(good.substr(0, good.size() - 1));
  refused(good + "x");
  refused(with("<f4", ">f4"));
  refused(with("False", "True "));
  refused(with("(2, 3)", "(2, x)"));
  refused(with("(2, 3), }  ", "(3037000500, 3037000500), }  "));
  refused(with("(2, 3)", "(-2,3)"));
  CHECK_THROWS_AS(read_npy(folder / "absent.npy"), InputError);
}
