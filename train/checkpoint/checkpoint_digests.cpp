#include "ringlet/train/checkpoint/checkpoint_digests.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::train::checkpoint {
namespace {

std::string line_of(const std::filesystem::path& file) {
  return sha256(MappedFile(file).text()) + "  " + file.filename().string() + '\n';
}

}  // namespace

// The other ranks wait: at 2 GB/s on a Zen 5, 0.7 s for the 1.3 GB of mpnet-base.
void write_digests(const std::filesystem::path& folder) {
  std::string lines;
  for (const std::filesystem::path& file : list_folder(folder))
    if (file.filename() != kDigests) lines += line_of(file);
  write_file(folder / kDigests, lines);
}

void check_digest(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path file = folder / name, digests = folder / kDigests;
  const std::string line = line_of(file);
  if (!path_exists(digests))
    fail_input(folder.string(), ": no ", kDigests, ", the digests of its files: expected a whole ",
               "checkpoint of this version");
  const std::string lines = '\n' + read_file(digests);
  if (!lines.ends_with('\n') || lines.find('\n' + line) == std::string::npos)
    fail_input(file.string(), ": damaged, or of another checkpoint: expected the digest in ",
               kDigests, ", found ", line.substr(0, 16));
}

}  // namespace ringlet::train::checkpoint
