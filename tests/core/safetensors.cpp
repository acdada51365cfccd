#include "ringlet/core/io/safetensors.h"

#include "ringlet/core/io/file.h"

#include "../files.h"
#include "../oracle.h"

using namespace ringlet;

namespace {

/// A file with this header and `nbytes` bytes of data.
std::filesystem::path write_raw(const TemporaryFolder& folder, const std::string& header,
                                std::size_t nbytes) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
  text += header;
  for (std::size_t i = 0; i < nbytes; ++i) text += static_cast<char>(i);
  write_file(folder / "raw.safetensors", text);
  return folder / "raw.safetensors";
}

std::string error_of(const std::filesystem::path& path) {
  try {
    SafeTensors::open(path);
  } catch (const InputError& error) {
    const std::string text = error.what();
    REQUIRE(text.starts_with(path.string() + ": "));
    return text.substr(path.string().size() + 2);
  }
  return "";
}

}  // namespace

TEST_CASE("tensors come back as they were written") {
  const TemporaryFolder folder;
  const NamedTensors written{{"flags", tensor<std::uint8_t>({1, 0, 1}, {3})},
                             {"weight", tensor<float>({1, 2, 3, 4}, {2, 2})},
                             {"ids", tensor<std::int64_t>({-1, 7}, {2})},
                             {"half", tensor<float>({0.5f}, {1}).to(DType::bf16)},
                             {"empty", empty({0, 3})},
                             {"scalar", tensor<double>({2.5}, {})}};
  save_safetensors(folder / "a.safetensors", written);
  const SafeTensors file = SafeTensors::open(folder / "a.safetensors");
  CHECK(file.metadata() == SafeTensorsMetadata{{"format", "pt"}});
  CHECK(file.names().size() == written.size());
  for (const auto& [key, expected] : written) {
    const std::string& name = key;  // clang 14 captures no structured binding
    CAPTURE(name);
    const Tensor read = file.load(name);
    CHECK(read.shape() == expected.shape());
    CHECK(read.dtype() == expected.dtype());
    CHECK(read.to_vector<double>() == expected.to_vector<double>());
  }
}

TEST_CASE("loading copies nothing and outlives the file and the reader") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a.safetensors", {{"x", tensor({1.f, 2.f})}, {"y", tensor({3.f})}});
  Tensor x, y;
  {
    const SafeTensors file = SafeTensors::open(folder / "a.safetensors");
    x = file.load("x");
    y = file.load("y");
  }
  std::filesystem::remove(folder / "a.safetensors");
  CHECK(x.storage() == y.storage());
  CHECK(x.to_vector() == std::vector<float>{1, 2});
  Tensor copy = x.clone();
  copy.fill_(9);
  CHECK(x.to_vector() == std::vector<float>{1, 2});
}

TEST_CASE("load_into converts and checks the shape") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a.safetensors", {{"x", tensor({1.f, 2.f})}});
  const SafeTensors file = SafeTensors::open(folder / "a.safetensors");
  Tensor wide = empty({2}, DType::f64), wrong = empty({3});
  file.load_into("x", wide);
  CHECK(wide.to_vector<double>() == std::vector<double>{1, 2});
  CHECK_THROWS_AS(file.load_into("x", wrong), InputError);
  CHECK_THROWS_AS(file.load("z"), InputError);
}

TEST_CASE("a writer takes tensors piece by piece, in any order") {
  const TemporaryFolder folder;
  {
    SafeTensorsWriter writer(folder / "a.safetensors",
                             {{"b", DType::u8, {3}}, {"a", DType::f32, {2}}});
    writer.write("b", 1, ones({2}, DType::u8));
    writer.write("a", 0, tensor({1.f, 2.f}));
    CHECK_THROWS_AS(writer.write("b", 2, ones({2}, DType::u8)), Error);
    CHECK_THROWS_AS(writer.write("c", 0, ones({2}, DType::u8)), Error);
    CHECK_THROWS_WITH(writer.commit(), "[safetensors] 1 elements were not written");
  }
  CHECK(folder.entries() == 0);  // an unfinished file leaves nothing
  CHECK_THROWS_AS(
      save_safetensors(folder / "a.safetensors", {{"a", tensor({1.f})}, {"a", tensor({2.f})}}),
      Error);
}

TEST_CASE("an unaligned tensor is copied") {
  const TemporaryFolder folder;
  const auto path = write_raw(folder,
                              R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("a":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}})",
                              5);
  CHECK(SafeTensors::open(path).load("a").item<int>() == 0x04030201);
}

TEST_CASE("an unknown dtype is refused only when that tensor is read") {
  const TemporaryFolder folder;
  const auto path = write_raw(folder,
                              R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                              R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[2,3]}})",
                              3);
  const SafeTensors file = SafeTensors::open(path);
  CHECK(file.load("b").dtype() == DType::u8);
  CHECK(file.contains("a"));
  CHECK_THROWS_WITH_AS(file.load("a"),
                       (path.string() + ": tensor 'a': dtype F8_E4M3 is not supported").c_str(),
                       InputError);
}

TEST_CASE("bad files are named with what is wrong") {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& header, std::size_t nbytes) {
    return error_of(write_raw(folder, header, nbytes));
  };
  CHECK(error("{}", 0).empty());
  CHECK(error(R"({"__metadata__":null})", 0).empty());
  CHECK(error("{} ", 1) == "tensors cover 0 of 1 bytes of data");
  CHECK(error("[]", 0) == "expected an object, got []");
  CHECK(error("{\"a\":", 0).starts_with("expected JSON: "));
  CHECK(error(R"({"a":3})", 0) == "tensor 'a': expected an object, got 3");
  CHECK(error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}})", 3) ==
        "tensor 'a': its shape needs 2 bytes, data_offsets give 3");
  CHECK(error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1) ==
        "tensor 'a'.data_offsets: expected [begin, end] in the 1 bytes of data, got [0,2]");
  CHECK(error(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[1,0]}})", 1) ==
        "tensor 'a'.data_offsets: expected [begin, end] in the 1 bytes of data, got [1,0]");
  CHECK(error(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1) ==
        "tensor 'a'.shape[0]: expected a whole number from 0 to 9223372036854775807, got -1");
  CHECK(error(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0) ==
        "tensor 'a'.shape: expected fewer elements, got [4294967296,4294967296]");
  CHECK(error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
              3) ==
        "tensor 'b': its data begins at byte 2, expected 1 "
        "(data must have neither overlaps nor holes)");
  CHECK(error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
              R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
              3)
            .starts_with("tensor 'b': its data begins at byte 1, expected 2"));
  CHECK(error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
              1) == "'a' appears twice");
  CHECK(error(R"({"__metadata__":{"format":1}})", 0) ==
        "__metadata__.format: expected text, got 1");

  write_file(folder / "short", "abc");
  CHECK(error_of(folder / "short") == "too short for a safetensors file");
  write_file(folder / "pointer",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 437967672\n");
  CHECK(error_of(folder / "pointer") ==
        "a git-lfs pointer, not the file itself; `git lfs pull` fetches that");
  write_file(folder / "pickle", "\x80\x02}q\x01(X\x04");
  CHECK(error_of(folder / "pickle") == "a Python pickle; convert it to safetensors");
  write_file(folder / "cut", std::string("\xff\0\0\0\0\0\0\0{}", 10));
  CHECK(error_of(folder / "cut") ==
        "header of 255 bytes in a file of 10 bytes; not a safetensors file, or cut short");
  CHECK(error_of(folder / "missing") == "cannot open: No such file or directory");
}

TEST_CASE("a sharded index names the file of each tensor") {
  const TemporaryFolder folder;
  save_safetensors(folder / "one.safetensors", {{"a", tensor({1.f})}});
  save_safetensors(folder / "two.safetensors", {{"b", tensor({2.f})}});
  const auto index = folder / "model.safetensors.index.json";
  write_file(index, R"({"metadata":{"total_size":8},)"
                    R"("weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const SafeTensors file = SafeTensors::open(folder.path());
  CHECK(file.names() == std::vector<std::string>{"a", "b"});
  CHECK(file.load("b").item() == 2);

  write_file(index, R"({"weight_map":{"b":"one.safetensors"}})");
  CHECK(error_of(index) == "tensor 'b' is not in 'one.safetensors'");
  write_file(index, R"({"weight_map":{"a":"../one.safetensors"}})");
  CHECK(error_of(index) ==
        "weight_map.a: expected a file name without folder, got \"../one.safetensors\"");
  write_file(index, "{}");
  CHECK(error_of(index) == "expected the key 'weight_map'");
}

TEST_CASE("oracle files from PyTorch are read") {
  const Oracle ops("ops");
  CHECK(ops.tensor("cast.f32/bf16").dtype() == DType::bf16);
  CHECK(ops.flag("sum.axes_0_keepdim/keepdim"));
  CHECK(ops.cases("adamw").size() > 0);
  // A conversion is exact: both sides round to nearest even.
  CHECK(check_close(ops.tensor("cast.f32/x").to(DType::bf16), ops.tensor("cast.f32/bf16"), 0) == 0);
  CHECK(check_close(ops.tensor("cast.f32/x").to(DType::f16), ops.tensor("cast.f32/f16"), 0) == 0);
}
