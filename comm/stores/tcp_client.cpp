#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

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
    try {
      request({.type = StoreVerb::goodbye}, kGoodbye);
    } catch (const Error&) {  // the server has ended
    }
    stop();
  }

  void set(const std::string& key, const std::string& value) override {
    request({.type = StoreVerb::set, .key = key, .value = value}, timeout_);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return request({.type = StoreVerb::add, .number = amount, .key = key}, timeout_).number;
  }

  std::optional<std::string> find(const std::string& key, Timeout patience) override {
    const StoreMessage answer = request({.type = StoreVerb::find, .key = key}, patience);
    return answer.type == StoreVerb::done ? std::optional(answer.value) : std::nullopt;
  }

  void raise(const std::string& cause) override {
    const std::string text = cause.substr(0, kLongestValue);
    try {  // the server decides which cause was first
      request({.type = StoreVerb::raise, .value = text}, kGoodbye);
    } catch (const Error&) {  // it does not answer: this one is used
    }
    const std::lock_guard lock(mutex_);
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
  /// One at a time. Throws if the connection has ended or the time is up. Finds nothing once the
  /// alarm is raised.
  StoreMessage request(StoreMessage message, Timeout timeout) {
    const Deadline deadline = Clock::now() + timeout;
    const bool finds = message.type == StoreVerb::find;
    message.id = ++last_id_;
    const std::string bytes = encode(message);
    std::unique_lock lock(mutex_);
    const auto comes = [&](const auto& ready) {
      const auto ends = [&] { return ended_ || (finds && raised()); };
      return changed_.wait_until(lock, deadline, [&] { return ends() || ready(); }) && !ends();
    };
    bool answered = comes([&] { return awaited_ == 0; });
    if (answered) {
      awaited_ = message.id;
      lock.unlock();
      const std::size_t sent = send_until(socket_, bytes, deadline);
      // A partly sent message cannot be taken back, so the connection ends with it.
      if (0 < sent && sent < bytes.size()) end(server_ + " takes no messages");
      lock.lock();
      answered = sent == bytes.size() && comes([&] { return answer_.has_value(); });
      message = std::exchange(answer_, std::nullopt).value_or(StoreMessage());
      awaited_ = 0;
      changed_.notify_all();
    }
    if (answered) return message;
    if (finds && raised()) return {.type = StoreVerb::absent};
    if (ended_ && raised()) fail(cause_);
    RINGLET_CHECK(!ended_, "[store] ", server_, " has ended");
    fail("[store] ", server_, " did not answer within ", seconds_of(timeout), " s");
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
      while (const auto message = receive_message(socket_, Deadline::max())) handle(*message);
      end(server_ + " ended unexpectedly");
    } catch (const Error& error) {
      end(str(server_, ": ", error.what()));
    }
  }

  void handle(const StoreMessage& message) {
    const std::lock_guard lock(mutex_);
    if (message.type == StoreVerb::alarm) raise_here(message.value, message.key);
    if (message.type == StoreVerb::closing) closing_ = true;
    if (awaited_ != 0 && message.id == awaited_) answer_ = message;
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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> last_id_{0};
  std::uint64_t awaited_ = 0;  // the request in progress; 0: none
  std::optional<StoreMessage> answer_;
  std::atomic<bool> raised_{false};
  std::string cause_;
  std::string culprit_;
  std::atomic<bool> closing_{false};  // the end of the connection is no failure
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TcpStore> join_tcp_store(const TcpStoreOptions& options) {
  return std::make_unique<TcpClient>(options);
}

}  // namespace ringlet::comm
