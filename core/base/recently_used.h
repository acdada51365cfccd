// A cache of recently used values; when it is full, the least recently used value is evicted.
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

  /// The value of `key`; make() creates it if it is not cached. Valid until the next call.
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
  std::list<std::pair<Key, Value>> values_;  // the most recently used first
  std::map<Key, typename std::list<std::pair<Key, Value>>::iterator> places_;
};

}  // namespace ringlet
