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
class JsonNode;

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
    std::shared_ptr<Storage> file;   // the mapping, without its header
    std::size_t begin = 0, end = 0;  // bytes in `file`
    Shape shape;
    DType dtype = DType::f32;
    std::filesystem::path path;
    std::string refusal;  // why it cannot be read; empty if it can
  };

  static Entry read_entry(const JsonNode& tensor, std::size_t data_bytes);
  void open_file(const std::filesystem::path& path);
  void open_index(const std::filesystem::path& path);
  const Entry& entry(const std::string& name) const;

  std::filesystem::path path_;
  std::vector<std::string> names_;
  std::map<std::string, Entry> entries_;
  SafeTensorsMetadata metadata_;
};

/// Writes a file piece by piece, so that little of it has to be in memory. Names, dtypes and shapes
/// are given first; they determine the position of every element.
class SafeTensorsWriter {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
  };
  /// `alone`: commit() makes the complete file appear. Or several processes write one file
  /// concurrently, with the same entries: one `creates` it with its full length before the others
  /// `join`. It is then not renamed, but in a folder that appears as a whole (AtomicFolder).
  enum class Role { alone, creates, joins };

  /// InputError if there is no file to join, it cannot be created, or there is no room for it.
  SafeTensorsWriter(const std::filesystem::path& path, std::vector<Entry> entries,
                    Role role = Role::alone,
                    const SafeTensorsMetadata& metadata = {{"format", "pt"}});
  ~SafeTensorsWriter();
  SafeTensorsWriter(const SafeTensorsWriter&) = delete;
  SafeTensorsWriter& operator=(const SafeTensorsWriter&) = delete;

  /// Writes `elements` (n), from any device, to tensor `name` from element `begin` on.
  void write(const std::string& name, std::int64_t begin, const Tensor& elements);
  /// Syncs this process's writes to the disk. Throws if this process is alone and elements are
  /// missing.
  void commit();

 private:
  struct Place {
    std::size_t offset;  // bytes, in the file
    std::int64_t numel;
    DType dtype;
  };
  void write_at(std::size_t offset, const std::byte* data, std::size_t nbytes);

  std::filesystem::path path_;
  std::map<std::string, Place> places_;
  std::int64_t missing_ = 0;          // elements that were not written
  std::unique_ptr<AtomicFile> file_;  // alone
  int fd_ = -1;
};

/// Writes all tensors; the file appears complete or not at all. Names must be unique. Keep "format"
/// in the metadata: transformers crashes without it.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SafeTensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace ringlet
