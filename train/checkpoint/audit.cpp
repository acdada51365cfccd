#include "ringlet/train/checkpoint/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/nn/sharding.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"
#include "ringlet/train/checkpoint/resume.h"

namespace ringlet::train {
namespace {

constexpr std::size_t kHex = 64;  // digits of a digest

/// The digest of a norm block, which no shard's edge splits, of the parameters (0) or a moment
/// (1, …) on a rank of tensor parallelism.
struct BlockDigest {
  int slice_rank, tensor;
  std::int64_t block;
  std::array<char, kHex> digest;
};

/// The blocks on this rank; padding between units is left out.
std::vector<BlockDigest> digests_here(nn::Arena& arena, Optimizer& optimizer, int slice_rank) {
  const std::vector<nn::LocalSlice> slices = arena.local_slices();
  const std::vector<std::vector<Tensor>>& moments = optimizer.local_moments();
  std::vector<BlockDigest> out;
  for (std::size_t s = 0; s < slices.size(); ++s)
    for (const nn::Unit& unit : arena.units()) {
      const std::int64_t begin = std::max(unit.begin, slices[s].begin);
      const std::int64_t end = std::min(unit.end, slices[s].end);
      for (std::size_t k = 0; begin < end && k <= moments[s].size(); ++k) {
        const Tensor& of_slice = k == 0 ? slices[s].data : moments[s][k - 1];
        const Tensor here =
            of_slice.slice(begin - slices[s].begin, end - slices[s].begin).to(Device{});
        const std::string_view bytes(reinterpret_cast<const char*>(here.bytes()), here.nbytes());
        const std::size_t size = kNormBlock * itemsize(here.dtype()), first = out.size();
        const std::int64_t count = (end - begin + kNormBlock - 1) / kNormBlock;
        out.resize(first + static_cast<std::size_t>(count));
        parallel_for(Device{}, count, 8, [&](std::int64_t from, std::int64_t to) {
          for (std::int64_t i = from; i < to; ++i) {
            const auto at = static_cast<std::size_t>(i);
            BlockDigest& one = out[first + at];
            one = {slice_rank, static_cast<int>(k), begin / kNormBlock + i, {}};
            sha256(bytes.substr(at * size, size)).copy(one.digest.data(), kHex);
          }
        });
      }
    }
  return out;
}

/// The digest of the rows of the `count` steps before `end`.
std::string rows_digest(const TrainingTask& task, Position end, std::int64_t count) {
  std::string text;
  for (; count > 0; --count) {
    if (end.step == 0) end = {end.epoch - 1, task.steps_per_epoch(end.epoch - 1)};
    const BatchRows batch = task.sampler().batch(end.epoch, --end.step);
    text += fmt::format("{}:{}\n", batch.dataset, fmt::join(batch.rows, ","));
  }
  return sha256(text);
}

UpdateArguments arguments_of(const AuditLine& start) {
  UpdateArguments all;
  for (const auto& [name, value] : start.json["arguments"].items()) all[name] = value.text();
  return all;
}

/// `text` without its brace at the end, and the digest.
std::string with_digest(const std::string& text, const std::string& digest) {
  return text.substr(0, text.size() - 1) + ",\"digest\":\"" + digest + "\"}";
}

}  // namespace

std::string state_digest(const nn::Module& module, Optimizer& optimizer, const comm::Group& group) {
  nn::Arena& arena = *module.arena();
  const std::vector<BlockDigest> here =
      digests_here(arena, optimizer, nn::slice_group(module).rank());
  const std::vector<std::string> sums = group.all_gather_bytes(
      sha256({reinterpret_cast<const char*>(here.data()), here.size() * sizeof(BlockDigest)}));
  // The first of several replicas with the same bits sends them.
  const auto me = sums.begin() + group.rank();
  const bool sent = std::find(sums.begin(), me, *me) != me;
  const auto ranks = comm::all_gather_values(group, sent ? std::vector<BlockDigest>() : here);
  std::map<std::pair<int, int>, std::map<std::int64_t, std::array<char, kHex>>> tensors;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& [slice_rank, tensor, block, digest] : ranks[rank]) {
      const auto known = tensors[{slice_rank, tensor}].emplace(block, digest).first;
      if (known->second == digest) continue;
      const auto unit = std::ranges::find_if(
          arena.units(), [end = block * kNormBlock](const nn::Unit& one) { return end < one.end; });
      fail("[audit] rank ", rank, ": ", tensor == 0 ? "weights" : "moments", " of '",
           unit == arena.units().end() ? "" : unit->name, "' differ from an earlier rank's");
    }
  std::string all;
  for (const auto& [tensor, blocks] : tensors) {
    std::string digests;
    for (const auto& [block, digest] : blocks) digests.append(digest.data(), kHex);
    all += sha256(digests);
  }
  for (const auto& [name, steps, moments] : optimizer.updates())
    all += fmt::format("{} {}\n", name, steps);
  return sha256(all);
}

std::vector<AuditLine> read_audit(const std::filesystem::path& path) {
  std::vector<AuditLine> lines;
  const std::string all = read_file(path);
  std::string previous;
  std::int64_t interval = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::string place = str(path.string(), ':', lines.size() + 1);
    const std::size_t end = all.find('\n', begin);
    if (end == all.npos) fail_input(place, ": is cut off");
    const std::string line = all.substr(begin, end - begin);
    const std::size_t tail = with_digest("}", std::string(kHex, '0')).size();
    if (line.size() <= tail) fail_input(place, ": expected an object that ends with its digest");
    AuditLine& one = lines.emplace_back();
    one.text = line.substr(0, line.size() - tail) + '}';
    one.digest = sha256(previous + one.text);
    if (line != with_digest(one.text, one.digest))
      fail_input(place, ": expected digest ", one.digest.substr(0, 16), ", found ",
                 line.substr(line.size() - kHex - 2, 16),
                 ": the line or an earlier one was changed");
    one.json = Json::parse(one.text, place);
    one.step = one.json["step"].integer();
    if (lines.size() == 1) interval = one.json["audit_steps"].integer();
    if (interval < 1) fail_input(place, ": expected audit_steps of at least 1, found ", interval);
    if (lines.size() == 1 || (one.has("state") && one.step % interval == 0)) previous = one.digest;
    begin = end + 1;
  }
  if (lines.empty()) fail_input(path.string(), ": is empty");
  return lines;
}

std::vector<std::int64_t> check_checkpoints(const std::filesystem::path& output,
                                            const std::vector<AuditLine>& lines) {
  std::vector<std::int64_t> steps;
  for (const AuditLine& line : lines) {
    const std::filesystem::path folder = checkpoint_path(output, line.step);
    if (!line.has("files") || !folder_exists(folder)) continue;
    const std::filesystem::path sums = folder / checkpoint::kDigests;
    const std::string found = path_exists(sums) ? sha256(read_file(sums)) : "no file";
    if (found != line.text_of("files"))
      fail_input(sums.string(), ": expected digest ", line.text_of("files").substr(0, 16),
                 ", found ", found.substr(0, 16));
    for (const std::filesystem::path& file : list_folder(folder))
      if (file != sums) checkpoint::check_digest(folder, file.filename().string());
    steps.push_back(line.step);
  }
  return steps;
}

void check_replay(const std::vector<AuditLine>& recorded, const std::vector<AuditLine>& replayed) {
  check_same_arguments(kAudit, arguments_of(recorded.front()), arguments_of(replayed.front()));
  for (const AuditLine& line : replayed) {
    if (!line.has("state")) continue;
    const auto before = std::ranges::find_if(
        recorded, [&](const AuditLine& one) { return one.step == line.step && one.has("state"); });
    if (before == recorded.end()) continue;
    for (const auto& [key, what] : {std::pair("rows", "rows"), {"state", "weights or moments"}})
      if (before->text_of(key) != line.text_of(key))
        fail_input("step ", line.step, ": other ", what, " than in the replay: digest ",
                   before->text_of(key).substr(0, 16), ", replayed ",
                   line.text_of(key).substr(0, 16));
  }
}

AuditLog::AuditLog(std::filesystem::path path) : path_(std::move(path)), read_(read_audit(path_)) {
  interval_ = read_.front().json["audit_steps"].integer();
  for (const AuditLine& line : read_) {
    if (&line != &read_.front() && !is_link(line)) continue;
    linked_ = line.step;
    previous_ = line.digest;
  }
}

AuditLog::AuditLog(std::filesystem::path path, std::int64_t interval,
                   const UpdateArguments& arguments, std::int64_t step) {
  const Json start{{"step", 0}, {"audit_steps", interval}, {"arguments", arguments}};
  std::string kept;
  if (step > 0 && path_exists(path)) {
    const std::string text = read_file(path);
    write_file(path, text.substr(0, text.rfind('\n') + 1));  // a killed run may have cut a line off
    for (const AuditLine& line : read_audit(path)) {
      if (kept.empty() && line.text != start.dump())
        fail_setting("audit_steps", ' ', interval, ": ", path.string(), " began with interval ",
                     line.json["audit_steps"].integer(), ", or with other arguments");
      if (line.step <= step) kept += with_digest(line.text, line.digest) + '\n';
    }
  }
  write_file(path, kept.empty() ? with_digest(start.dump(), sha256(start.dump())) + '\n' : kept);
  *this = AuditLog(std::move(path));
}

bool AuditLog::has(const char* key) const {
  return std::ranges::any_of(read_, [&](const AuditLine& line) { return line.has(key); });
}

bool AuditLog::is_link(const AuditLine& line) const {
  return line.has("state") && line.step % interval_ == 0;
}

void AuditLog::add_state(const TrainerState& at, const std::string& state,
                         const TrainingTask& task) {
  const auto before = std::ranges::find_if(
      read_, [&](const AuditLine& line) { return line.step == at.step && line.has("state"); });
  if (before == read_.end())
    return add({{"step", at.step},
                {"rows", rows_digest(task, at.position, at.step - linked_)},
                {"state", state}});
  if (before->text_of("state") != state)
    fail_input(path_.string(), ": step ", at.step, ": expected weights and moments of digest ",
               before->text_of("state").substr(0, 16), ", found ", state.substr(0, 16));
}

void AuditLog::add_files(std::int64_t step, const std::filesystem::path& checkpoint) {
  add({{"step", step}, {"files", sha256(read_file(checkpoint / checkpoint::kDigests))}});
}

void AuditLog::add(Json line) {
  AuditLine one{line["step"].integer(), line, line.dump(), ""};
  one.digest = sha256(previous_ + one.text);
  std::ofstream out(path_, std::ios::app);
  out << with_digest(one.text, one.digest) + '\n' << std::flush;
  if (!out) fail_input(path_.string(), ": cannot write");
  if (is_link(one)) {
    linked_ = one.step;
    previous_ = one.digest;
  }
  read_.push_back(std::move(one));
}

}  // namespace ringlet::train
