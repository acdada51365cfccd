// Files: a read-only mapping, and writing that either completes or has no effect. Paths that cannot
// be read or written throw InputError, "PATH: cannot open: No such file".
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet {

/// Keys of files that have no effect on the program, "FILE: 'key'" each.
using Notes = std::vector<std::string>;

/// A whole regular file mapped for reading; copies share the mapping. Pages are read on first
/// access; a page that is written to becomes private to the process. The mapping outlives the
/// file's name: rename and unlink are harmless. Shrinking the file in place while it is mapped is
/// not: replace files with AtomicFile.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return nbytes_; }
  /// Valid while this object exists. The start is page-aligned; null for an empty file.
  std::span<const std::byte> bytes() const;
  std::string_view text() const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<void> data_;
  std::size_t nbytes_ = 0;
};

/// A file under construction, without a name if the file system has such files, else "NAME.tmp.*".
/// commit() syncs it and renames it over `path`. Without commit() (an exception, a full disk) it is
/// removed and `path` is unchanged. A link is followed: its target is replaced. The folder must
/// exist. Every write is checked.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// For writes at positions, instead of write().
  int descriptor() const { return fd_; }
  /// Bytes written so far.
  std::size_t size() const { return nbytes_; }
  /// Writes all bytes to the disk and names the file; a full disk is reported here at the latest.
  /// Files that belong together are all synced before the first commit.
  void sync();
  /// Syncs the file and renames it to `path`, once; no writes may follow.
  void commit();

 private:
  void flush();
  void write_through(const char* data, std::size_t nbytes);
  [[noreturn]] void fail_errno(const char* what, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // its name from sync() on, or from the start
  std::string buffer_;
  std::size_t nbytes_ = 0;
  int fd_ = -1;
  bool synced_ = false, named_ = false;
};

/// The whole text of a file.
std::string read_file(const std::filesystem::path& path);
/// Replaces the content of `path` by `text`, or throws and leaves it unchanged.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Whether the path exists; InputError if this cannot be determined (a name that is too long, a
/// loop of links).
bool path_exists(const std::filesystem::path& path);
/// Whether the path is a folder.
bool folder_exists(const std::filesystem::path& path);
/// Makes a folder and its missing parents.
void make_folders(const std::filesystem::path& path);
/// The paths in a folder, sorted; empty if there is no such folder.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& path);
/// Removes a file, or a folder with its contents; no error if the path does not exist.
void remove_path(const std::filesystem::path& path);

/// First bytes that check_kind() needs at most.
inline constexpr std::size_t kKindBytes = 512;

/// `head` begins a file `name` that is to hold text or weights. InputError if it is known to be
/// something else, such as Parquet, an archive, UTF-16 or a git-lfs pointer: what, and what to do.
void check_kind(std::string_view head, const std::string& name);

/// The digest of these bytes in hexadecimal, as sha256sum prints it.
std::string sha256(std::string_view bytes);
/// Its first 16 digits, for lines that people read.
inline std::string short_sha256(std::string_view bytes) { return sha256(bytes).substr(0, 16); }

}  // namespace ringlet
