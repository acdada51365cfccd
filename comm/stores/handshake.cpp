#include "ringlet/comm/stores/handshake.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAcceptsPerRound = 64;  // so that a flood of connections waits, not the ranks
constexpr auto kExhausted = std::chrono::milliseconds(100);  // without accepts, for descriptors
constexpr auto kCheck = std::chrono::milliseconds(20);

/// Unauthenticated clients with a hello, and without. They leave descriptors for the ranks' pipes.
std::ptrdiff_t most_unauthenticated() {
  rlimit files{};
  const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? static_cast<std::ptrdiff_t>(std::clamp<rlim_t>(files.rlim_cur / 8, 2, 256)) : 256;
}

}  // namespace

std::string make_hello(const Token& token, std::uint32_t id, const std::string& nonce) {
  const std::string signed_part = std::string(reinterpret_cast<const char*>(&id), kId) + nonce;
  return str(kMagic, signed_part, token.sign("hello", signed_part));
}

bool prove_to_server(const Socket& socket, const Token& token, std::uint32_t id, Deadline deadline,
                     std::string& why, const std::function<void()>& check) {
  const std::string nonce = random_bytes(kNonce);
  why = "it closes the connection: its job token is another one (RINGLET_TOKEN)";
  send_until(socket, make_hello(token, id, nonce), deadline);
  std::string challenge;
  while (challenge.size() < kChallenge) {
    const Got got = receive_some(socket, challenge, kChallenge - challenge.size());
    if (got == Got::end) return false;
    if (got == Got::bytes) continue;
    if (check) check();
    if (Clock::now() >= deadline) {
      why = "it accepts connections and says nothing";
      return false;
    }
    wait_for(socket, POLLIN, std::min(deadline, Clock::now() + kCheck));
  }
  const std::string nonces = nonce + challenge.substr(0, kNonce);
  if (!token.verifies(challenge.substr(kNonce), "server", nonces))
    fail("it is no store of this job: its answer is not signed with the token");
  return send_until(socket, token.sign("client", nonces), deadline) == kProof;
}

Admission::Admission(Socket listener, Token token)
    : listener_(std::move(listener)), token_(std::move(token)), most_(most_unauthenticated()) {}

void Admission::add_to(std::vector<pollfd>& polled) const {
  polled.push_back({Clock::now() >= accept_again_ ? listener_.fd() : -1, POLLIN, 0});
  for (const Candidate& one : candidates_) polled.push_back({one.socket.fd(), POLLIN, 0});
}

void Admission::serve(const std::function<void(Socket, std::uint32_t)>& admit) {
  if (Clock::now() >= accept_again_) accept_some();
  for (Candidate& one : candidates_) read(one);
  for (const bool greeted : {false, true})
    while (close_oldest(greeted, most_)) continue;
  for (Candidate& one : candidates_)
    if (!one.gone && !one.nonces.empty() && one.in.size() == kProof) {
      if (token_.verifies(one.in, "client", one.nonces)) admit(std::move(one.socket), one.id);
      one.gone = true;
    }
  candidates_.remove_if([](const Candidate& one) { return one.gone; });
}

void Admission::accept_some() {
  accept_again_ = {};
  if (!wait_for(listener_, POLLIN, Deadline())) return;
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Socket socket = accept_from(listener_);
    // A connection waits for the first one; accept() needs a descriptor even if none does.
    const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    if (!socket && exhausted && i == 0 && !close_oldest(/*greeted=*/false, 0))
      accept_again_ = Clock::now() + kExhausted;
    if (!socket) return;
    candidates_.push_back({std::move(socket), Clock::now() + kHandshake});
  }
}

/// Reads a hello or a proof. A wrong one is refused as soon as it is seen to be wrong.
void Admission::read(Candidate& one) {
  if (one.gone) return;
  const bool greeted = !one.nonces.empty();
  const std::size_t expected = greeted ? kProof : kHello;
  const Got got = receive_some(one.socket, one.in, expected - one.in.size());
  one.gone = got == Got::end || Clock::now() >= one.deadline ||
             (!greeted && !kMagic.starts_with(one.in.substr(0, kMagic.size())));
  if (!one.gone && !greeted && one.in.size() == kHello) greet(one);
}

void Admission::greet(Candidate& one) {
  const std::string signed_part = one.in.substr(kMagic.size(), kId + kNonce);
  one.gone = !token_.verifies(one.in.substr(kMagic.size() + kId + kNonce), "hello", signed_part);
  // Any process of this host knows the key of an empty token.
  if (token_.empty() && !one.gone) one.gone = !peer_is_this_user(one.socket);
  if (one.gone) return;
  std::memcpy(&one.id, signed_part.data(), kId);
  const std::string fresh = random_bytes(kNonce);
  one.nonces = signed_part.substr(kId) + fresh;
  one.in.clear();
  send_until(one.socket, fresh + token_.sign("server", one.nonces), Deadline());
}

/// Closes the oldest of more than `most` connections; false if there are no more.
bool Admission::close_oldest(bool greeted, std::ptrdiff_t most) {
  const auto counts = [&](const Candidate& one) {
    return !one.gone && one.nonces.empty() != greeted;
  };
  if (std::ranges::count_if(candidates_, counts) <= most) return false;
  Candidate& oldest = *std::ranges::find_if(candidates_, counts);
  oldest.gone = true;
  oldest.socket.close();
  return true;
}

}  // namespace ringlet::comm
