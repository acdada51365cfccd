// A folder that appears whole or not at all.
#pragma once

#include <filesystem>

namespace ringlet {

/// A folder under construction, beside `target` under a temporary name. commit() syncs its files
/// and puts it in the target's place in one step (an older folder there is swapped out and
/// removed). Without commit() it is removed and the target is untouched. InputError when the
/// target is not a folder or its parent cannot be written.
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
  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace ringlet
