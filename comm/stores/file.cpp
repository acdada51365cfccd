// The store of processes that share a file system.
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ringlet/comm/store.h"
#include "ringlet/core/error.h"
#include "ringlet/core/file.h"

namespace ringlet::comm {
namespace fs = std::filesystem;
namespace {

/// Longer names are cut: a name has at most 255 bytes, and writing the file needs some of them.
constexpr std::size_t kLongestFileName = 150;

std::string sha256(const std::string& text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int length = 0;
  RINGLET_CHECK(
      EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &length,
                 EVP_sha256(), nullptr) == 1,
      "[store] SHA-256 failed");
  digest.resize(length);
  return digest;
}

/// A key as a file's name: letters, digits, '.', '_' and '-' stay, other bytes become %xx. A long
/// name keeps its beginning, followed by '#' and a digest of the key.
std::string file_name(const std::string& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "=";  // no key is ".", "..", or the name of a lock
  const auto append_hex = [&](char c) {
    name.append({kDigits[static_cast<unsigned char>(c) >> 4], kDigits[c & 15]});
  };
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (plain) {
      name += c;
    } else {
      name += '%';
      append_hex(c);
    }
  }
  if (name.size() <= kLongestFileName) return name;
  name.resize(kLongestFileName / 2);
  name += '#';
  for (const char c : sha256(key)) append_hex(c);
  return name;
}

/// A lock for one process at a time; the system releases it when that process dies.
class Lock {
 public:
  explicit Lock(const fs::path& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ < 0) fail_input(path.string(), ": cannot open: ", std::strerror(errno));
    while (flock(fd_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      close(fd_);
      fail_input(path.string(), ": cannot lock: ", std::strerror(error));
    }
  }
  ~Lock() { close(fd_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int fd_;
};

class FileStore final : public Store {
 public:
  explicit FileStore(fs::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail_input(folder_.string(), ": cannot create: ", error.message());
  }

  void set(const std::string& key, const std::string& value) override {
    write_file(folder_ / file_name(key), value);  // readers see all of it or nothing
  }

  std::string get(const std::string& key, Timeout timeout) override {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + timeout;
    const fs::path path = folder_ / file_name(key);
    for (auto nap = std::chrono::milliseconds(1);; nap = std::min(2 * nap, kLongestNap)) {
      if (fs::exists(path)) return read_file(path);
      RINGLET_CHECK(Clock::now() < deadline, "[store] nobody set '", key, "' within ",
                    std::chrono::duration<double>(timeout).count(), " s");
      std::this_thread::sleep_for(nap);
    }
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const Lock lock(folder_ / "lock");
    const fs::path path = folder_ / ("counter" + file_name(key));
    const std::int64_t sum = (fs::exists(path) ? std::stoll(read_file(path)) : 0) + amount;
    write_file(path, std::to_string(sum));
    return sum;
  }

 private:
  static constexpr std::chrono::milliseconds kLongestNap{20};
  fs::path folder_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& folder) {
  return std::make_shared<FileStore>(folder);
}

}  // namespace ringlet::comm
