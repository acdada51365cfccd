#include "ringlet/train/cli/output.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

/// Files that other ranks try to write, and the lock.
constexpr std::string_view kOwnPrefix = ".ringlet-";

/// Makes a file and removes it: permissions alone say little to root or on a read-only disk.
void try_file(std::string_view option, const fs::path& folder, const fs::path& wanted) {
  std::string name = (folder / str(kOwnPrefix, "XXXXXX")).string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0)
    fail_input(option, ' ', wanted.string(),
               ": cannot write: ", std::generic_category().message(errno));
  ::close(fd);
  ::unlink(name.c_str());
}

/// A path that is too long or not accessible may be a folder.
std::string why_no_folder(const std::error_code& error, const std::string& otherwise) {
  const bool absent = !error || error == std::errc::no_such_file_or_directory ||
                      error == std::errc::not_a_directory;
  return absent ? otherwise : str("cannot write: ", error.message());
}

}  // namespace

void check_writable_folder(std::string_view option, const fs::path& folder) {
  std::error_code error;
  fs::path existing = fs::absolute(folder, error);
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    if (error && error != std::errc::no_such_file_or_directory) break;
    existing = existing.parent_path();
  }
  if (!fs::is_directory(existing, error))
    fail_input(option, ' ', folder.string(), ": ",
               why_no_folder(error, str(existing.string(), " is no folder")));
  try_file(option, existing, folder);
}

void check_new_folder(std::string_view option, const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error))
    for (const fs::path& path : list_folder(folder))
      if (!path.filename().string().starts_with(kOwnPrefix))
        fail_input(option, ' ', folder.string(), ": the folder is not empty");
  check_writable_folder(option, folder);
}

void check_output_file(std::string_view option, const fs::path& file) {
  std::error_code error;
  if (file.empty() || fs::is_directory(file, error))
    fail_input(option, " '", file.string(), "': expected the name of a file");
  const fs::path folder = fs::absolute(file, error).parent_path();
  if (!fs::is_directory(folder, error))
    fail_input(option, ' ', file.string(), ": ",
               why_no_folder(error, str("there is no folder ", folder.string())));
  try_file(option, folder, file);
}

void check_not_input(std::string_view option, const fs::path& file, std::string_view reader,
                     const fs::path& input) {
  std::error_code error;  // a missing file is no input
  if (fs::equivalent(file, input == "-" ? fs::path("/dev/stdin") : input, error))
    fail_input(option, ' ', file.string(), ": ", reader, " reads this file");
}

}  // namespace ringlet::cli
