#include "ringlet/core/io/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "ringlet/core/base/error.h"

namespace ringlet {

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest;
  RINGLET_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1,
      "[sha256] no digest");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ringlet
