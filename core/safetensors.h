// The safetensors format, the one in which Hugging Face folders keep their weights: 8 bytes of
// little-endian header length, a JSON header, raw little-endian data.
// Definition: github.com/huggingface/safetensors, README "Format".
//
// Reading is lazy: a file is mapped, its header is checked wholly, data is touched when used.
// What is refused is what the reference implementation refuses (holes, overlaps, sizes that do
// not match, duplicate names), with InputError "FILE: tensor 'NAME': what is wrong".
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/file.h"
#include "ringlet/core/tensor.h"

namespace ringlet {

/// Free text of the header, name to value.
using SafeTensorsMetadata = std::map<std::string, std::string>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The tensors of one file, or of all files of a sharded index. Cheap to copy.
class SafeTensors {
 public:
  /// `path` is a file.safetensors, a sharded index (*.index.json), or a folder that holds
  /// model.safetensors or else model.safetensors.index.json.
  static SafeTensors open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// In the order of the data; a sharded index lists file after file.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(const std::string& name) const { return entries_.contains(name); }

  /// All of these throw InputError when there is no such tensor, or it is of a dtype that ringlet
  /// lacks (F8_E4M3, …) or has more than 8 dimensions. BOOL is u8.
  const Shape& shape(const std::string& name) const;
  DType dtype(const std::string& name) const;
  /// A view of the mapping, which it keeps alive: nothing is copied (unless the data is not
  /// aligned to its element size). What is written there never reaches the file.
  Tensor load(const std::string& name) const;
  /// Copies into `out`, converting to its dtype and device; the shapes must be equal.
  void load_into(const std::string& name, Tensor& out) const;

  const SafeTensorsMetadata& metadata() const { return metadata_; }

 private:
  struct Entry {
    std::shared_ptr<Storage> file;  // the mapping, without its header
    std::size_t begin = 0;          // byte in it
    Shape shape;
    DType dtype = DType::f32;
    std::filesystem::path path;
    std::string refusal;  // why it cannot be read, empty when it can
  };

  void open_file(const std::filesystem::path& path);
  void open_index(const std::filesystem::path& path);
  const Entry& entry(const std::string& name) const;

  std::filesystem::path path_;
  std::vector<std::string> names_;
  std::map<std::string, Entry> entries_;
  SafeTensorsMetadata metadata_;
};

/// Writes a file tensor by tensor, so that at no time more than one has to exist whole. Names,
/// dtypes and shapes come first, the data in `order()`; commit() makes the file appear, wholly.
class SafeTensorsWriter {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
  };
  SafeTensorsWriter(const std::filesystem::path& path, std::vector<Entry> entries,
                    const SafeTensorsMetadata& metadata = {{"format", "pt"}});

  /// The order in which to write: the given one, wider elements first so that all are aligned.
  const std::vector<Entry>& order() const { return entries_; }
  /// The next tensor; its name, dtype and shape must be those announced. Any device.
  void write(const std::string& name, const Tensor& tensor);
  /// Throws when tensors are missing.
  void commit();

 private:
  std::vector<Entry> entries_;
  std::size_t next_ = 0;
  AtomicFile file_;
};

/// One file that several processes write at once, each some elements of its tensors. All announce
/// the same tensors, from which the place of every element follows. One of them creates the file,
/// in its whole length, before the others open it. Nothing is renamed: the file lies in a folder
/// that comes into place as a whole (AtomicFolder).
class SafeTensorsParts {
 public:
  enum class Role { creates, joins };
  /// InputError where there is no file to join, none can be made, or there is no room for it.
  SafeTensorsParts(const std::filesystem::path& path, std::vector<SafeTensorsWriter::Entry> entries,
                   Role role);
  ~SafeTensorsParts();
  SafeTensorsParts(const SafeTensorsParts&) = delete;
  SafeTensorsParts& operator=(const SafeTensorsParts&) = delete;

  /// `elements` (n), of any device, are those of tensor `name` from `begin` on.
  void write(const std::string& name, std::int64_t begin, const Tensor& elements);
  /// Brings what this process wrote to the disk.
  void sync();

 private:
  struct Place {
    std::size_t offset;  // bytes, in the file
    std::int64_t numel;
    DType dtype;
  };
  void write_at(std::size_t offset, const std::byte* data, std::size_t nbytes);

  std::filesystem::path path_;
  std::map<std::string, Place> places_;
  int fd_ = -1;
};

/// Writes all at once; the file appears wholly or not at all. Names must be unique.
/// transformers crashes without "format" in the metadata, so keep it.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SafeTensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace ringlet
