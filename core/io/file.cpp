#include "ringlet/core/io/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

std::string reason(int error) { return std::generic_category().message(error); }

/// Closes at the end of the scope; errors of closing a read-only descriptor are ignored.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

fs::path follow_links(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

/// InputError "PATH: WHAT: REASON" if there is an error.
void check(const std::error_code& error, const fs::path& path, const char* what) {
  if (error) fail_input(path.string(), ": ", what, ": ", error.message());
}

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // A missing path is a valid result.
  if (!fs::status_known(status)) check(error, path, "cannot look at it");
  return status;
}

/// A name that no other process and no other thread writes to.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> count{0};
  fs::path name = path;
  name += str(".tmp.", ::getpid(), ".", count.fetch_add(1));
  return name;
}

/// Makes a rename in `folder` durable. Some file systems cannot sync folders; this is not an error.
void sync_folder(const fs::path& folder) {
  const Descriptor directory{
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd >= 0) ::fsync(directory.fd);
}

using namespace std::string_view_literals;

struct FileKind {
  std::size_t at;  // where in the file
  std::string_view magic;
  const char* what;
  const char* advice;
};

constexpr const char* kToJsonl = "convert it to JSON lines, a row each";
constexpr const char* kToSafeTensors = "convert it to safetensors";

// No text of UTF-8 begins with one of these; the longer ones come first.
constexpr FileKind kKinds[] = {
    {0, "version https://git-lfs.github.com/spec/"sv, "a git-lfs pointer, not the file itself",
     "`git lfs pull` fetches that"},
    {0, "PAR1\x15"sv, "a Parquet file", kToJsonl},
    {0, "ARROW1\0\0"sv, "an Arrow file", kToJsonl},
    {0, "\xFF\xFF\xFF\xFF"sv, "an Arrow stream", kToJsonl},
    {0, "Obj\x01"sv, "an Avro file", kToJsonl},
    {0, "SQLite format 3\0"sv, "an SQLite database", kToJsonl},
    {0, "\xD0\xCF\x11\xE0"sv, "an old spreadsheet or document", "save it as CSV in UTF-8"},
    {257, "ustar\0"sv, "a tar archive", "unpack it with tar -xf"},
    {257, "ustar "sv, "a tar archive", "unpack it with tar -xf"},
    {0, "\x1F\x8B"sv, "a gzip file", "unpack it with gunzip"},
    {4, "1AY&SY"sv, "a bzip2 file", "unpack it with bunzip2"},
    {0,
     "\xFD"
     "7zXZ\0"sv,
     "an xz file", "unpack it with unxz"},
    {0, "\x28\xB5\x2F\xFD"sv, "a zstd file", "unpack it with unzstd"},
    {0, "7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "unpack it"},
    {0, "PK\x03\x04"sv, "a ZIP archive or spreadsheet",
     "unpack it, let the name of an archive end in .zip, or save a spreadsheet as CSV"},
    {0, "\x89HDF\r\n"sv, "an HDF5 file", kToSafeTensors},
    {0, "\x93NUMPY"sv, "a NumPy array", kToSafeTensors},
    {0, "\x80\x02"sv, "a Python pickle", kToSafeTensors},
    {0, "\x80\x03"sv, "a Python pickle", kToSafeTensors},
    {0, "\x80\x04"sv, "a Python pickle", kToSafeTensors},
    {0, "\x80\x05"sv, "a Python pickle", kToSafeTensors},
    {0, "\xFF\xFE\0\0"sv, "UTF-32 text", "convert it with iconv -f UTF-32 -t UTF-8"},
    {0, "\xFF\xFE"sv, "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"},
    {0, "\xFE\xFF"sv, "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"},
};

/// Two ASCII characters in UTF-16, without a byte order mark.
bool is_utf16(std::string_view head, std::size_t zero) {
  const auto ascii = [&](std::size_t i) { return head[i] > '\0' && head[i + 1] == '\0'; };
  if (head.size() < 5 + zero) return false;
  head.remove_prefix(zero);
  return ascii(0) && ascii(2);
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_input(path.string(), ": cannot open: ", reason(errno));
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail_input(path.string(), ": cannot read: ", reason(errno));
  if (!S_ISREG(status.st_mode)) fail_input(path.string(), ": expected a regular file");
  nbytes_ = static_cast<std::size_t>(status.st_size);
  if (nbytes_ == 0) return;
  void* data =
      ::mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.fd, 0);
  if (data == MAP_FAILED) fail_input(path.string(), ": cannot map: ", reason(errno));
  data_ = {data, [nbytes = nbytes_](void* mapped) { ::munmap(mapped, nbytes); }};
}

std::span<const std::byte> MappedFile::bytes() const {
  return {static_cast<const std::byte*>(data_.get()), nbytes_};
}

std::string_view MappedFile::text() const {
  return {static_cast<const char*>(data_.get()), nbytes_};
}

AtomicFile::AtomicFile(const fs::path& path)
    : path_(follow_links(path)), temporary_(temporary_name(path_)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail_input(path.string(), ": cannot write: it exists and is not a regular file");
  }
  // A file without a name vanishes with its process, even after SIGKILL. Some file systems have
  // none, and sync() needs /proc to name it. A name that is too long is an error now, not then.
  const fs::path folder = path_.parent_path();
  if (::access(temporary_.c_str(), F_OK) != 0 && errno == ENOENT &&
      ::access("/proc/self/fd", F_OK) == 0)
    fd_ = ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (fd_ >= 0) return;
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno("cannot write", errno);
  named_ = true;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (named_) ::unlink(temporary_.c_str());
}

void AtomicFile::fail_errno(const char* what, int error) const {
  fail_input(path_.string(), ": ", what, ": ", reason(error));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  RINGLET_CHECK(fd_ >= 0, "[AtomicFile] ", path_.string(), ": write after commit");
  const char* data = reinterpret_cast<const char*>(bytes.data());
  synced_ = false;
  nbytes_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) {
    write_through(data, bytes.size());
  } else {
    buffer_.append(data, bytes.size());
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void AtomicFile::write_through(const char* data, std::size_t nbytes) {
  while (nbytes > 0) {
    const ssize_t written = ::write(fd_, data, nbytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno("cannot write", errno);
    data += written;
    nbytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::sync() {
  if (synced_) return;
  RINGLET_CHECK(fd_ >= 0, "[AtomicFile] ", path_.string(), ": committed twice");
  flush();
  if (::fsync(fd_) != 0) fail_errno("cannot write", errno);
  // linkat() cannot replace a file, so this one gets its temporary name first.
  if (!named_ && ::linkat(AT_FDCWD, str("/proc/self/fd/", fd_).c_str(), AT_FDCWD,
                          temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail_errno("cannot write", errno);
  synced_ = named_ = true;
}

void AtomicFile::commit() {
  RINGLET_CHECK(fd_ >= 0, "[AtomicFile] ", path_.string(), ": committed twice");
  sync();
  if (::close(std::exchange(fd_, -1)) != 0) fail_errno("cannot write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno("cannot rename", errno);
  named_ = false;
  sync_folder(path_.parent_path());
}

std::string read_file(const fs::path& path) { return std::string(MappedFile(path).text()); }

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

bool path_exists(const fs::path& path) { return fs::exists(status_of(path)); }

bool folder_exists(const fs::path& path) { return fs::is_directory(status_of(path)); }

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check(error, path, "cannot make the folder");
}

std::vector<fs::path> list_folder(const fs::path& path) {
  std::vector<fs::path> paths;
  if (!folder_exists(path)) return paths;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    paths.push_back(at->path());
  check(error, path, "cannot list");
  std::sort(paths.begin(), paths.end());
  return paths;
}

void remove_path(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  check(error, path, "cannot remove");
}

void check_kind(std::string_view head, const std::string& name) {
  for (const FileKind& kind : kKinds)
    if (head.size() > kind.at && head.substr(kind.at).starts_with(kind.magic))
      fail_input(name, ": ", kind.what, "; ", kind.advice);
  if (is_utf16(head, 0) || (head.starts_with('\0') && is_utf16(head, 1)))
    fail_input(name, ": UTF-16 text without a byte order mark; convert it with iconv -t UTF-8");
}

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest;
  RINGLET_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1,
      "[sha256] no digest");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ringlet
