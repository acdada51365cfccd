#include "ringlet/train/data/bytes.h"

#include <minizip/unzip.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 4096;
constexpr std::size_t kReadBytes = std::size_t{1} << 16;
constexpr std::size_t kListed = 8;
constexpr int kCaseSensitive = 1;

struct CloseArchive {
  void operator()(unzFile archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<std::remove_pointer_t<unzFile>, CloseArchive>;

std::string current_name(unzFile archive) {
  std::array<char, kLongestName> name{};
  unzGetCurrentFileInfo64(archive, nullptr, name.data(), name.size() - 1, nullptr, 0, nullptr, 0);
  return name.data();
}

/// The files, without folders and the ones that macOS adds.
std::vector<std::string> names_in(unzFile archive) {
  std::vector<std::string> names;
  for (int status = unzGoToFirstFile(archive); status == UNZ_OK;
       status = unzGoToNextFile(archive)) {
    std::string name = current_name(archive);
    if (!name.ends_with('/') && !name.starts_with("__MACOSX/")) names.push_back(std::move(name));
  }
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i)
    list += (i ? ", " : "") + names[i];
  return list + (names.size() > kListed ? ", ..." : "");
}

/// A file in an archive: "snli_1.0.zip/snli_1.0/snli_1.0_dev.jsonl" as a path.
struct ZipMember {
  std::filesystem::path archive;
  std::string name;  // without its folders if these are left out; empty: the only file
};

/// The one file with this name, where its folders may be left out.
std::string find_name(const ZipMember& member, unzFile archive) {
  const std::vector<std::string> all = names_in(archive);
  if (std::ranges::find(all, member.name) != all.end()) return member.name;
  std::vector<std::string> fitting;
  for (const std::string& name : all)
    if (member.name.empty() || name.ends_with('/' + member.name)) fitting.push_back(name);
  if (fitting.size() == 1) return fitting[0];
  fail_input(member.archive.string(), ": expected the name of one file in it, as in ",
             member.archive.filename().string(), "/FILE, found ",
             member.name.empty() ? "none" : member.name, "; it has ", list_of(all));
}

/// Nothing for a path on which no part is a file that ends in ".zip".
std::optional<ZipMember> zip_member(const fs::path& path) {
  std::error_code unknown;  // reported when the path is opened
  for (fs::path part = path; part.has_relative_path(); part = part.parent_path()) {
    if (part.extension() != ".zip" || !fs::is_regular_file(part, unknown)) continue;
    return ZipMember{part, part == path ? "" : path.lexically_relative(part).string()};
  }
  return std::nullopt;
}

/// The unpacked bytes. A damaged archive and a name of none or several files are InputError.
ByteSource open_zip(const ZipMember& member) {
  const std::shared_ptr<std::remove_pointer_t<unzFile>> archive =
      Archive(unzOpen64(member.archive.c_str()));
  if (!archive) {
    const MappedFile file(member.archive);
    if (!file.text().starts_with("PK")) check_kind(file.text(), member.archive.string());
    fail_input(member.archive.string(), ": expected a ZIP archive");
  }
  const std::string name = find_name(member, archive.get());
  const std::string place = (member.archive / name).string();
  if (unzLocateFile(archive.get(), name.c_str(), kCaseSensitive) != UNZ_OK ||
      unzOpenCurrentFile(archive.get()) != UNZ_OK)
    fail_input(place, ": cannot be unpacked: damaged, encrypted, or neither stored nor deflated");
  return [archive, place](std::span<char> into) {
    if (unzeof(archive.get()) < 0) return std::size_t{0};  // closed at its end
    const auto wanted = static_cast<unsigned>(std::min(into.size(), kReadBytes));
    const int count = unzReadCurrentFile(archive.get(), into.data(), wanted);
    // unzCloseCurrentFile compares checksums, but not of a stream that ends early.
    if (count < 0 || (count == 0 &&
                      (unzeof(archive.get()) != 1 || unzCloseCurrentFile(archive.get()) != UNZ_OK)))
      fail_input(place, ": damaged in its ZIP archive");
    return static_cast<std::size_t>(count);
  };
}

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

std::string reason(int error) { return std::generic_category().message(error); }

std::size_t read_gzip(gzFile file, const std::string& name, std::span<char> into) {
  const auto wanted = static_cast<unsigned>(std::min(into.size(), kReadBytes));
  errno = 0;
  const int count = gzread(file, into.data(), wanted);
  int error = Z_OK;
  const char* message = gzerror(file, &error);
  if (error == Z_ERRNO) fail_input(name, ": cannot read: ", reason(errno));
  if (count < 0 || error == Z_BUF_ERROR) fail_input(name, ": damaged gzip file: ", message);
  return static_cast<std::size_t>(count);
}

GzipFile open_gzip(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    fail_input(path.string(), ": expected a file, found a folder");
  }
  errno = 0;
  GzipFile file(path == "-" ? gzdopen(::dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb"));
  if (!file) fail_input(input_name(path), ": cannot open: ", reason(errno ? errno : ENOMEM));
  gzbuffer(file.get(), kReadBytes);
  if (path.extension() == ".gz" && gzdirect(file.get())) {
    std::array<char, kKindBytes> head;
    check_kind({head.data(), read_gzip(file.get(), path.string(), head)}, path.string());
    fail_input(path.string(), ": expected a gzip file");
  }
  return file;
}

/// Other threads read files meanwhile: those of a Python program.
struct Kept {
  std::mutex mutex;
  std::map<fs::path, std::shared_ptr<const std::string>> inputs;

  static Kept& all() {
    static Kept kept;
    return kept;
  }
  std::shared_ptr<const std::string> find(const fs::path& path) {
    const std::lock_guard lock(mutex);
    const auto found = inputs.find(path);
    return found == inputs.end() ? nullptr : found->second;
  }
};

}  // namespace

std::string input_name(const fs::path& path) {
  return path == "-" ? "standard input" : path.string();
}

ByteSource open_bytes(const fs::path& path) {
  if (const auto kept = Kept::all().find(path))
    return [kept, rest = bytes_of(*kept)](std::span<char> into) mutable { return rest(into); };
  if (const auto member = zip_member(path)) return open_zip(*member);
  // std::function copies what it holds, so the handle is shared.
  std::shared_ptr<gzFile_s> file = open_gzip(path);
  return [file, name = input_name(path)](std::span<char> into) {
    return read_gzip(file.get(), name, into);
  };
}

ByteSource bytes_of(std::string_view text) {
  return [text](std::span<char> into) mutable {
    const std::size_t count = text.copy(into.data(), into.size());
    text.remove_prefix(count);
    return count;
  };
}

bool is_read_once(const fs::path& path) {
  // A descriptor may be a regular file, with one position for all readers.
  const std::string name = path.string();
  if (name == "-" || name.starts_with("/dev/std") || name.starts_with("/dev/fd/")) return true;
  if (name.starts_with("/proc/") && name.find("/fd/") != name.npos) return true;
  std::error_code unknown;  // reported when the path is opened
  const fs::file_status status = fs::status(path, unknown);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void keep_input(const fs::path& path, std::string bytes) {
  const std::lock_guard lock(Kept::all().mutex);
  if (!Kept::all().inputs.emplace(path, std::make_shared<std::string>(std::move(bytes))).second)
    fail_input(input_name(path), ": can be read once, but two options name it");
}

std::vector<std::string> kept_inputs() {
  const std::lock_guard lock(Kept::all().mutex);
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : Kept::all().inputs) paths.push_back(path.string());
  return paths;
}

void release_kept_inputs() {
  const std::lock_guard lock(Kept::all().mutex);
  Kept::all().inputs.clear();
}

}  // namespace ringlet::train
