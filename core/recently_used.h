// A table of the values that were used last: what is full lets the one go that was not used for
// longest.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace ringlet {

template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most) : most_(most) {}

  std::size_t size() const { return values_.size(); }
  void clear() {
    places_.clear();
    values_.clear();
  }

  /// The value of `key`, from make() where it is not there. Valid until the next call.
  template <class Make>
  Value& find(const Key& key, Make make) {
    const auto found = places_.find(key);
    if (found != places_.end()) {
      values_.splice(values_.begin(), values_, found->second);
      return values_.front().second;
    }
    values_.emplace_front(key, make());
    places_[key] = values_.begin();
    if (values_.size() > most_) {
      places_.erase(values_.back().first);
      values_.pop_back();
    }
    return values_.front().second;
  }

 private:
  std::size_t most_;
  std::list<std::pair<Key, Value>> values_;  // the last used is the first
  std::map<Key, typename std::list<std::pair<Key, Value>>::iterator> places_;
};

}  // namespace ringlet
