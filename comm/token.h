// The job token: a secret that only the ranks of a job know. It is never sent: each side proves by
// HMAC-SHA256 over fresh random numbers that it knows it.
#pragma once

#include <string>
#include <string_view>

namespace ringlet::comm {

class Token {
 public:
  static constexpr std::size_t kShortest = 16;  // characters
  static constexpr std::size_t kSigned = 32;    // bytes of a signature

  /// No secret: only for jobs that stay on the loopback of one host.
  Token() = default;
  /// InputError if it has fewer than 16 characters.
  explicit Token(std::string secret);
  /// 256 random bits as hexadecimal digits.
  static Token random();
  /// RINGLET_TOKEN, else the file RINGLET_TOKEN_FILE (without the space at its end), which only its
  /// owner may access (mode 0600); empty if neither is set. InputError names the variable.
  static Token from_environment();

  bool empty() const { return secret_.empty(); }
  /// Only for the environment of a child process.
  const std::string& secret() const { return secret_; }

  /// A signature of the message in this role; only owners of the secret can compute it.
  std::string sign(std::string_view role, std::string_view message) const;
  /// Compares in constant time.
  bool verifies(std::string_view signature, std::string_view role, std::string_view message) const;

 private:
  std::string secret_;
};

/// Random bytes that are safe for keys.
std::string random_bytes(std::size_t n);

}  // namespace ringlet::comm
