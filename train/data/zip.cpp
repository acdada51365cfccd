#include "ringlet/train/data/zip.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/file_kind.h"

namespace ringlet::train {
namespace {

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

}  // namespace

std::optional<ZipMember> zip_member(const std::filesystem::path& path) {
  std::error_code unknown;  // reported when the path is opened
  for (std::filesystem::path part = path; part.has_relative_path(); part = part.parent_path()) {
    if (part.extension() != ".zip" || !std::filesystem::is_regular_file(part, unknown)) continue;
    return ZipMember{part, part == path ? "" : path.lexically_relative(part).string()};
  }
  return std::nullopt;
}

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

}  // namespace ringlet::train
