// A folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace ringlet {

/// A folder under construction, beside `target` under a temporary name. commit() syncs its files
/// and puts it in the target's place in one step (an older folder there is swapped out and
/// removed; where the file system knows no swaps it waits as ".NAME.old.XXXXXX" and comes back if
/// the new one cannot take its place). Without commit() it is removed and the target is untouched.
/// InputError when the target is not a folder or its parent cannot be written.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  void replace(bool is_there);  // in steps, without flags of renameat2

  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

/// Removes what processes that were killed have left in `parent` of folders (AtomicFolder) and
/// files (AtomicFile) under construction, if `is_target` knows the name that they were to get, and
/// of folders whose place others have taken; one whose place nothing has taken gets it back.
/// Nobody may be building one of them. InputError where something cannot be removed.
void remove_unfinished(const std::filesystem::path& parent,
                       const std::function<bool(const std::string& name)>& is_target);

}  // namespace ringlet
