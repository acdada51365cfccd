#include "ringlet/comm/stores/tcp_members.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

constexpr std::size_t kLongestName = 512;
constexpr Timeout kLongestSilence = std::chrono::hours(24);
constexpr auto kFlush = std::chrono::milliseconds(500);

}  // namespace

void TcpMembers::poll_into(std::vector<pollfd>& polled) const {
  for (const TcpMember& member : members_)
    polled.push_back({member.socket.fd(),
                      static_cast<short>(member.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
}

Deadline TcpMembers::next_sign() const {
  Deadline next = Deadline::max();
  for (const TcpMember& member : members_)
    if (member.silence != Timeout::zero()) next = std::min(next, member.next_sign);
  return next;
}

void TcpMembers::serve(const pollfd* events) {
  for (TcpMember& member : members_)
    if (const short found = events++->revents; found != 0) serve(member, found);
  for (TcpMember& member : members_)
    if (member.silent())
      lose(member, str("has been silent for ",
                       std::chrono::duration<double>(member.silence).count(), " s"));
  remove_lost();
}

void TcpMembers::serve(TcpMember& member, short events) {
  if (member.gone) return;
  if (events & POLLOUT) member.flush();
  if (!(events & (POLLIN | POLLHUP | POLLERR))) return;
  std::string bytes;
  const Got got = receive_some(member.socket, bytes);
  const int why = errno;
  if (got == Got::nothing) return;
  if (got == Got::end)
    return lose(member, why == 0 || why == ECONNRESET
                            ? "ended without saying goodbye"
                            : str("cannot be reached any more: ", std::strerror(why)));
  member.mark_alive();
  try {
    member.reader.feed(bytes);
    while (!member.gone) {
      const std::optional<StoreMessage> message = member.reader.next();
      if (!message) return;
      handle(member, *message);
    }
  } catch (const Error& error) {
    lose(member, str("sent what is no message: ", error.what()));
  }
}

void TcpMembers::handle(TcpMember& member, const StoreMessage& message) {
  if ((message.type == StoreVerb::join) == (member.scope != nullptr)) fail("a message out of turn");
  switch (message.type) {
    case StoreVerb::join:
      return join(member, message);
    case StoreVerb::set:
      return member.scope->set(member, message);
    case StoreVerb::get:
      return member.scope->get(member, message);
    case StoreVerb::forget:
      return member.scope->forget(member, message);
    case StoreVerb::add:
      return member.scope->add(member, message);
    case StoreVerb::raise:
      return member.scope->raise(member.name, message.value);
    case StoreVerb::goodbye:
      return leave(member);
    default:
      fail("a message of the server's own");
  }
}

void TcpMembers::join(TcpMember& member, const StoreMessage& message) {
  RINGLET_CHECK(message.value.size() <= kLongestName, "a name of ", message.value.size(), " bytes");
  member.name = message.value;
  member.silence = Timeout(std::clamp<std::int64_t>(message.number, 0, kLongestSilence.count()));
  member.mark_alive();
  change_count(1);  // before the answer, so that it is counted when it has it
  member.answer({.type = StoreVerb::done, .id = message.id});
  scopes_[message.key].join(member);
}

void TcpMembers::lose(TcpMember& member, const std::string& what) {
  TcpScope* scope = member.scope;
  leave(member);
  if (scope != nullptr) scope->raise(member.name, member.name + ' ' + what);
}

void TcpMembers::leave(TcpMember& member) {
  if (member.gone) return;
  member.gone = true;
  if (member.scope == nullptr) return;
  member.scope->leave(member);
  change_count(-1);
}

/// Removes the members that have ended, and the scopes without members.
void TcpMembers::remove_lost() {
  for (TcpMember& member : members_)
    if (member.stuck()) lose(member, "does not read what it asked for");
  std::erase_if(members_, [](const TcpMember& member) { return member.gone; });
  std::erase_if(scopes_, [](const auto& scope) { return scope.second.empty(); });
}

void TcpMembers::send_closing() {
  const std::string closing = encode({.type = StoreVerb::closing});
  const Deadline deadline = std::chrono::steady_clock::now() + kFlush;
  for (TcpMember& member : members_)
    static_cast<void>(send_all(member.socket, member.out + closing, deadline));
}

void TcpMembers::fail_all(const std::string& cause) {
  for (auto& [name, scope] : scopes_) scope.raise("", cause);
  for (TcpMember& member : members_) leave(member);
  remove_lost();
}

void TcpMembers::change_count(int by) {
  const std::lock_guard lock(count_mutex_);
  joined_ += by;
  count_changed_.notify_all();
}

bool TcpMembers::wait_for_goodbyes(Timeout timeout, int remaining) const {
  std::unique_lock lock(count_mutex_);
  return count_changed_.wait_for(lock, timeout, [&] { return joined_ <= remaining; });
}

}  // namespace ringlet::comm
