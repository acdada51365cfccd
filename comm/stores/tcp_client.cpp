#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "ringlet/comm/host.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGoodbye = std::chrono::seconds(2);

std::string who_and_where(const std::string& name) {
  return str(name, " (pid ", getpid(), ", host ", host_name(), ')');
}

class TcpClient final : public TcpStore {
 public:
  explicit TcpClient(const TcpStoreOptions& options)
      : host_(options.host),
        server_(str("the store at ", options.host, ':', options.port)),
        name_(who_and_where(options.name)),
        timeout_(options.timeout),
        exceptions_(std::uncaught_exceptions()),
        socket_(connect_to_store(options)) {
    const SignalsBlocked blocked;
    thread_ = start_thread([this] { listen(); });
    try {
      request({.type = StoreVerb::join, .value = name_}, timeout_);
    } catch (...) {
      stop();
      throw;
    }
  }

  ~TcpClient() override {
    if (std::uncaught_exceptions() > exceptions_ && !raised())
      raise(str(name_, " ended by an exception"));
    closing_ = true;
    // The server answers by closing the connection.
    send(encode({.type = StoreVerb::goodbye}), soon());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kGoodbye, [&] { return ended_; });
    lock.unlock();
    stop();
  }

  void set(const std::string& key, const std::string& value) override {
    request({.type = StoreVerb::set, .key = key, .value = value}, timeout_);
  }
  std::string get(const std::string& key, Timeout timeout) override {
    return request({.type = StoreVerb::get, .number = timeout.count(), .key = key}, timeout).value;
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return request({.type = StoreVerb::add, .number = amount, .key = key}, timeout_).number;
  }

  void raise(const std::string& cause) override {
    const std::string text = cause.substr(0, kLongestValue);
    const bool sent = send(encode({.type = StoreVerb::raise, .value = text}), soon());
    // The server decides which cause was first. If it does not answer, this one is used.
    std::unique_lock lock(mutex_);
    if (sent) changed_.wait_for(lock, kGoodbye, [&] { return raised() || ended_; });
    raise_here(text, name_);
  }
  bool raised() const override { return raised_.load(std::memory_order_acquire); }
  std::string cause() const override {
    const std::lock_guard lock(mutex_);
    return cause_;
  }
  std::string culprit() const override {
    const std::lock_guard lock(mutex_);
    return culprit_;
  }
  std::string host() const override { return host_; }

 private:
  /// Throws if the server refuses, the connection has ended or the time is up. A get, which waits
  /// for other ranks, also throws when the alarm is raised.
  StoreMessage request(StoreMessage message, Timeout timeout) {
    const Deadline deadline = Clock::now() + timeout;
    const bool waits = message.type == StoreVerb::get;
    message.id = ++last_id_;
    const std::string bytes = encode(message);
    std::unique_lock lock(mutex_);
    if (waits) check_alarm();
    const std::optional<StoreMessage>& answer = answers_[message.id];
    lock.unlock();
    const bool sent = send(bytes, deadline);
    lock.lock();
    if (sent)
      changed_.wait_until(lock, deadline, [&] { return answer || ended_ || (waits && raised()); });
    const auto entry = answers_.extract(message.id);
    if (entry.mapped()) {
      if (entry.mapped()->type == StoreVerb::refused) fail("[store] ", entry.mapped()->value);
      return *entry.mapped();
    }
    if (ended_ || waits) check_alarm();
    RINGLET_CHECK(!ended_, "[store] ", server_, " has ended");
    RINGLET_CHECK(sent && waits, "[store] ", server_, " did not answer within ",
                  seconds_of(timeout), " s");
    fail("[store] nobody set '", message.key, "' within ", seconds_of(timeout), " s");
  }

  void check_alarm() const {
    if (raised()) fail(cause_);
  }

  static Deadline soon() { return Clock::now() + kGoodbye; }

  /// Sends one message at a time, each with a separate deadline. A partly sent message cannot be
  /// taken back, so the connection ends with it.
  bool send(const std::string& bytes, Deadline deadline) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return !sending_ || ended_; }) || ended_)
      return false;
    sending_ = true;
    lock.unlock();
    const std::size_t sent = send_until(socket_, bytes, deadline);
    if (0 < sent && sent < bytes.size()) end(server_ + " takes no messages");
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    return sent == bytes.size();
  }

  /// The connection is unusable: raises the alarm unless its end was expected or noticed before.
  void end(const std::string& cause) {
    const std::lock_guard lock(mutex_);
    if (!closing_ && !ended_) raise_here(cause, "");
    ended_ = true;
    shutdown(socket_.fd(), SHUT_RDWR);  // wakes the client thread and those that wait to send
    changed_.notify_all();
  }

  // ---- the client thread ------------------------------------------------------------------------

  void listen() {
    try {
      while (receive()) continue;
      end(server_ + " ended unexpectedly");
    } catch (const Error& error) {
      end(str(server_, ": ", error.what()));
    }
  }

  /// Waits for data and handles it; false at the end of the connection.
  bool receive() {
    pollfd polled{socket_.fd(), POLLIN, 0};
    if (poll(&polled, 1, -1) < 0) return errno == EINTR;
    const Got got = receive_some(socket_, received_);
    if (got != Got::bytes) return got == Got::nothing;
    while (const std::optional<StoreMessage> message = take_message(received_)) handle(*message);
    return true;
  }

  void handle(const StoreMessage& message) {
    const std::lock_guard lock(mutex_);
    if (message.type == StoreVerb::alarm) {
      raise_here(message.value, message.key);
    } else if (message.type == StoreVerb::closing) {
      closing_ = true;
    } else if (const auto waiting = answers_.find(message.id); waiting != answers_.end()) {
      waiting->second = message;
    }
    changed_.notify_all();
  }

  /// With mutex_ held.
  void raise_here(const std::string& cause, const std::string& culprit) {
    if (raised()) return;
    cause_ = cause;
    culprit_ = culprit;
    raised_.store(true, std::memory_order_release);
    changed_.notify_all();
  }

  void stop() {
    closing_ = true;
    shutdown(socket_.fd(), SHUT_RDWR);  // wakes the client thread
    thread_.join();
  }

  const std::string host_;
  const std::string server_;
  const std::string name_;
  const Timeout timeout_;
  const int exceptions_;
  const Socket socket_;
  std::string received_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::optional<StoreMessage>> answers_;
  std::atomic<std::uint64_t> last_id_{0};
  std::atomic<bool> raised_{false};
  std::string cause_;
  std::string culprit_;
  bool sending_ = false;              // a thread is sending, without holding mutex_
  std::atomic<bool> closing_{false};  // the end of the connection is no failure
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TcpStore> join_tcp_store(const TcpStoreOptions& options) {
  return std::make_unique<TcpClient>(options);
}

}  // namespace ringlet::comm
