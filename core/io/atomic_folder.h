// A folder that appears as a whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace ringlet {

/// A folder under construction, next to `target` under a temporary name. commit() syncs its files
/// and renames it to `target` in one step; an older folder there is swapped out and removed. On a
/// file system without swaps, the older folder is first renamed to ".NAME.old.XXXXXX". It is
/// renamed back if the new one cannot take its place. Without commit() the destructor removes the
/// folder and `target` is untouched. InputError if `target` is not a folder or its parent cannot be
/// written.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The folder to write to.
  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  void replace(bool is_there);  // in two renames, without renameat2's flags

  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

/// Cleans `parent` after processes that were killed. Removes unfinished folders (AtomicFolder) and
/// files (AtomicFile) if `is_target` accepts their final name. Removes an older folder
/// (".NAME.old.*") if NAME exists, else renames it back. No thread or process may be building one
/// of them. InputError if one cannot be removed.
void remove_unfinished(const std::filesystem::path& parent,
                       const std::function<bool(const std::string& name)>& is_target);

}  // namespace ringlet
