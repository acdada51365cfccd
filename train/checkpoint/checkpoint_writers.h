// Which rank writes which part of a checkpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/error.h"
#include "ringlet/nn/module.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::train::checkpoint {

/// The ranks that write a checkpoint together; one rank if the module has no strategy.
class Writers {
 public:
  explicit Writers(const nn::Module& module)
      : sharding_(nn::sharding_of(module)), slices_(nn::slice_group(module)) {}
  /// 0 on the one rank that makes the folder.
  int rank() const { return slices_.rank() * size() + (sharding_ ? sharding_->world().rank() : 0); }

  /// Runs `body` on every rank and returns rank 0's result. An InputError on one rank is thrown on
  /// all.
  std::string together(const std::function<std::string()>& body) const {
    std::string mine;
    try {
      mine = kGood + body();
    } catch (const InputError& error) {
      mine = str(kBad, error.what());
    }
    if (sharding_) mine = first_bad(sharding_->world().all_gather_bytes(mine), "rank ");
    mine = first_bad(slices_.all_gather_bytes(mine), "tensor rank ");
    if (mine[0] == kBad) throw InputError(mine.substr(1));
    return mine.substr(1);
  }

  /// The sum of every rank's number.
  std::uint64_t sum(std::uint64_t mine) const {
    const auto over = [&](const comm::Group& group) {
      const auto all = comm::all_gather_values(group, std::vector{mine});
      mine = 0;
      for (const std::vector<std::uint64_t>& each : all) mine += each.front();
    };
    if (sharding_) over(sharding_->world());
    over(slices_);
    return mine;
  }

  /// Calls write(slot, slice, at, begin, end) for the elements [begin, end) of the arena that this
  /// rank writes, taken from its local slices. In the whole parameter they begin at `at`.
  template <class Write>
  void for_parts(nn::Arena& arena, const std::vector<nn::LocalSlice>& slices,
                 const Write& write) const {
    for (std::size_t s = 0; s < slices.size(); ++s) {
      const auto [first, last] = share(slices[s]);
      for (const nn::PlacedParameter& slot : arena.parameters()) {
        const std::int64_t begin = std::max(slot.offset, first);
        const std::int64_t end = std::min(slot.offset + slot.numel(), last);
        if (begin >= end) continue;
        if (const auto& slice = slot.parameter.state()->slice) {
          slice->for_runs(begin - slot.offset, end - slot.offset, [&](auto at, auto from, auto to) {
            write(slot, s, at, slot.offset + from, slot.offset + to);
          });
        } else if (slices_.rank() == 0) {
          write(slot, s, begin - slot.offset, begin, end);
        }
      }
    }
  }

 private:
  static constexpr char kGood = '+', kBad = '-';

  int size() const { return sharding_ ? sharding_->group().size() : 1; }

  /// Rank 0's result, unless one is bad.
  static std::string first_bad(const std::vector<std::string>& all, const char* name) {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank][0] == kBad)
        return kBad + str(all.size() > 1 ? str(name, rank, ": ") : "", all[rank].substr(1));
    return all[0];
  }

  std::pair<std::int64_t, std::int64_t> share(const nn::LocalSlice& slice) const {
    if (!sharding_) return {slice.begin, slice.end};
    const int index = sharding_->replicas().rank(), count = sharding_->replicas().size();
    const std::int64_t n = slice.end - slice.begin;
    return {slice.begin + n * index / count, slice.begin + n * (index + 1) / count};
  }

  std::shared_ptr<nn::Sharding> sharding_;
  comm::Group slices_;
};

}  // namespace ringlet::train::checkpoint
