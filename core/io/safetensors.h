// The safetensors format, in which Hugging Face folders store weights: 8 bytes of little-endian
// header length, a JSON header, raw little-endian data. Definition:
// github.com/huggingface/safetensors, README "Format".
//
// Reading is lazy: a file is mapped, its header is checked completely, data is read on first use.
// The reader refuses the files that the reference implementation refuses (holes, overlaps, wrong
// sizes, duplicate names). The InputError is "FILE: tensor 'NAME': what is wrong".
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

class AtomicFile;

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
  /// In the order of the data; for a sharded index, file by file.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(const std::string& name) const { return entries_.contains(name); }

  /// These four throw InputError if there is no such tensor, if ringlet lacks its dtype (F8_E4M3,
  /// …), or if it has more than 8 dimensions. BOOL is u8.
  const Shape& shape(const std::string& name) const;
  DType dtype(const std::string& name) const;
  /// A view of the mapping, which it keeps alive; a copy only if the data is not aligned to its
  /// element size. Writes to it never reach the file.
  Tensor load(const std::string& name) const;
  /// Copies into `out`, converting to its dtype and device; the shapes must be equal.
  void load_into(const std::string& name, Tensor& out) const;

  const SafeTensorsMetadata& metadata() const { return metadata_; }

 private:
  struct Entry {
    std::shared_ptr<Storage> file;  // the mapping, without its header
    std::size_t begin = 0;          // its offset in `file`, bytes
    Shape shape;
    DType dtype = DType::f32;
    std::filesystem::path path;
    std::string refusal;  // why it cannot be read; empty if it can
  };

  void open_file(const std::filesystem::path& path);
  void open_index(const std::filesystem::path& path);
  const Entry& entry(const std::string& name) const;

  std::filesystem::path path_;
  std::vector<std::string> names_;
  std::map<std::string, Entry> entries_;
  SafeTensorsMetadata metadata_;
};

/// Writes a file tensor by tensor, so that only one of them has to be in memory. Names, dtypes and
/// shapes are given first, data follows in `order()`; commit() makes the complete file appear.
class SafeTensorsWriter {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
  };
  SafeTensorsWriter(const std::filesystem::path& path, std::vector<Entry> entries,
                    const SafeTensorsMetadata& metadata = {{"format", "pt"}});
  ~SafeTensorsWriter();

  /// The order of write(): the given one, but wider elements first so that all are aligned.
  const std::vector<Entry>& order() const { return entries_; }
  /// Writes the next tensor, from any device; name, dtype and shape must be those of order().
  void write(const std::string& name, const Tensor& tensor);
  /// Throws if tensors are missing.
  void commit();

 private:
  std::vector<Entry> entries_;
  std::size_t next_ = 0;
  std::unique_ptr<AtomicFile> file_;
};

/// One file that several processes write concurrently, each some elements of its tensors. All give
/// the same entries, which determine the position of every element. One process creates the file
/// with its full length before the others open it. Nothing is renamed: the file is in a folder that
/// appears as a whole (AtomicFolder).
class SafeTensorsParts {
 public:
  enum class Role { creates, joins };
  /// InputError if there is no file to join, it cannot be created, or there is no room for it.
  SafeTensorsParts(const std::filesystem::path& path, std::vector<SafeTensorsWriter::Entry> entries,
                   Role role);
  ~SafeTensorsParts();
  SafeTensorsParts(const SafeTensorsParts&) = delete;
  SafeTensorsParts& operator=(const SafeTensorsParts&) = delete;

  /// Writes `elements` (n), from any device, to tensor `name` from element `begin` on.
  void write(const std::string& name, std::int64_t begin, const Tensor& elements);
  /// Syncs this process's writes to the disk.
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

/// Writes all tensors; the file appears complete or not at all. Names must be unique. Keep "format"
/// in the metadata: transformers crashes without it.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SafeTensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace ringlet
