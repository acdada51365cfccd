#include "ringlet/comm/token.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet::comm {
namespace {

std::string read_token_file(const std::string& path) {
  const std::string variable = "RINGLET_TOKEN_FILE=" + path;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) fail_input(variable, ": cannot open: ", std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail_input(variable, ": expected a regular file");
  if ((info.st_mode & 077) != 0)
    fail_input(variable, ": expected a file of its owner alone (chmod 600), found mode ",
               fmt::format("0{:o}", info.st_mode & 07777));
  std::string secret = read_file(path);
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  return secret;
}

void check_length(const std::string& what, const std::string& secret) {
  if (secret.size() < Token::kShortest)
    fail_input(what, ": expected at least ", Token::kShortest, " characters, found ",
               secret.size());
}

}  // namespace

Token::Token(std::string secret) : secret_(std::move(secret)) {
  check_length("a job token", secret_);
}

Token Token::random() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : random_bytes(32)) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return Token(text);
}

Token Token::from_environment() {
  Token token;
  if (const auto secret = environment_variable("RINGLET_TOKEN")) {
    check_length("RINGLET_TOKEN", *secret);
    token.secret_ = *secret;
  } else if (const auto path = environment_variable("RINGLET_TOKEN_FILE")) {
    token.secret_ = read_token_file(*path);
    check_length(str("RINGLET_TOKEN_FILE=", *path), token.secret_);
  }
  return token;
}

std::string Token::sign(std::string_view role, std::string_view message) const {
  // Without a secret the key is public: the handshake then distinguishes protocols, not people.
  const std::string_view key = empty() ? "ringlet loopback" : std::string_view(secret_);
  // Messages of one role have one length, so that no two (role, message) give the same bytes.
  const std::string data = str(role, '\n', message);
  std::string signature(kSigned, '\0');
  unsigned int length = 0;
  const unsigned char* result =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(data.data()), data.size(),
           reinterpret_cast<unsigned char*>(signature.data()), &length);
  RINGLET_CHECK(result != nullptr && length == kSigned, "[token] HMAC-SHA256 failed");
  return signature;
}

bool Token::verifies(std::string_view signature, std::string_view role,
                     std::string_view message) const {
  const std::string expected = sign(role, message);
  return signature.size() == expected.size() &&
         CRYPTO_memcmp(signature.data(), expected.data(), expected.size()) == 0;
}

std::string random_bytes(std::size_t n) {
  std::string bytes(n, '\0');
  RINGLET_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(n)) == 1,
      "[token] no random bytes");
  return bytes;
}

}  // namespace ringlet::comm
