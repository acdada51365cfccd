#include "ringlet/comm/stores/tcp_scope.h"

#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 256 << 20;  // of all values of a scope
constexpr std::size_t kMostUnsent = 64 << 20;  // to one client

}  // namespace

void TcpMember::answer(const StoreMessage& message) {
  if (gone || stuck()) return;
  out += encode(message);
  flush();
}

void TcpMember::flush() {
  out.erase(0, send_until(socket, out, Deadline()));  // an error is found when reading
}

void TcpMember::mark_alive() {
  missed = 0;
  next_sign = Clock::now() + silence / kSignsOfLife;
}

bool TcpMember::silent() {
  if (silence == Timeout::zero() || Clock::now() < next_sign) return false;
  next_sign = Clock::now() + silence / kSignsOfLife;
  return ++missed > kSignsOfLife;
}

bool TcpMember::stuck() const { return out.size() > kMostUnsent; }

void TcpScope::join(TcpMember& member) {
  members_.push_back(&member);
  member.scope = this;
  if (raised()) member.answer(alarm_);
}

void TcpScope::leave(TcpMember& member) {
  std::erase_if(waiters_, [&](const auto& waiter) { return waiter.second.member == &member; });
  std::erase(members_, &member);
  member.scope = nullptr;
}

void TcpScope::set(TcpMember& member, const StoreMessage& message) {
  const auto old = values_.find(message.key);
  const std::size_t less = old == values_.end() ? 0 : old->second.size();
  const std::size_t more = message.value.size() + (less == 0 ? message.key.size() : 0);
  if (nbytes_ + more > kMostBytes + less)
    return member.answer({.type = StoreVerb::refused,
                          .id = message.id,
                          .value = str("the store is full: ", kMostBytes, " bytes")});
  nbytes_ = nbytes_ + more - less;
  values_[message.key] = message.value;
  member.answer({.type = StoreVerb::done, .id = message.id});
  const auto [first, last] = waiters_.equal_range(message.key);
  for (auto at = first; at != last; ++at)
    at->second.member->answer(
        {.type = StoreVerb::done, .id = at->second.id, .value = message.value});
  waiters_.erase(first, last);
}

void TcpScope::get(TcpMember& member, const StoreMessage& message) {
  const auto found = values_.find(message.key);
  if (found == values_.end())
    waiters_.insert({message.key, {&member, message.id}});
  else
    member.answer({.type = StoreVerb::done, .id = message.id, .value = found->second});
}

void TcpScope::forget(TcpMember& member, const StoreMessage& message) {
  std::erase_if(waiters_, [&](const auto& waiter) {
    return waiter.second.member == &member && waiter.second.id == message.id;
  });
}

void TcpScope::add(TcpMember& member, const StoreMessage& message) {
  const std::int64_t sum = counters_[message.key] += message.number;
  member.answer({.type = StoreVerb::done, .id = message.id, .number = sum});
}

void TcpScope::raise(const std::string& who, const std::string& cause) {
  if (raised()) return;
  alarm_ = {.type = StoreVerb::alarm, .key = who, .value = cause};
  for (TcpMember* member : members_) member->answer(alarm_);
}

}  // namespace ringlet::comm
