#include "ringlet/comm/token.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/tests/comm/environment.h"
#include "ringlet/tests/files.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  char digits[3];
  for (const char byte : bytes) {
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

}  // namespace

TEST_CASE("a signature is HMAC-SHA256 over role and message") {
  // printf 'hello\nworld' | openssl dgst -sha256 -hmac 'a secret of a job'
  CHECK_EQ(hexadecimal(Token("a secret of a job").sign("hello", "world")),
           "9a335feb0faa6f79a89384c76e421ba097df6bf560fec1a21131ff23944943d6");
}

TEST_CASE("only the same secret, role and message verify") {
  const Token token = Token::random();
  const std::string signature = token.sign("client", "nonce");
  CHECK(token.verifies(signature, "client", "nonce"));
  CHECK(Token(token.secret()).verifies(signature, "client", "nonce"));
  CHECK_FALSE(token.verifies(signature, "server", "nonce"));
  CHECK_FALSE(token.verifies(signature, "client", "Nonce"));
  CHECK_FALSE(token.verifies(signature.substr(1), "client", "nonce"));
  CHECK_FALSE(token.verifies("", "client", "nonce"));
  CHECK_FALSE(Token::random().verifies(signature, "client", "nonce"));
  CHECK_FALSE(Token().verifies(signature, "client", "nonce"));
}

TEST_CASE("the token comes from RINGLET_TOKEN, else from a file of its owner alone") {
  const TemporaryFolder folder;
  const std::string path = (folder / "token").string();
  write_file(path, "0123456789abcdef\n");
  chmod(path.c_str(), 0600);

  CHECK(with_environment({}, Token::from_environment).empty());
  CHECK_EQ(
      with_environment({{"RINGLET_TOKEN", "sixteen letters!"}}, Token::from_environment).secret(),
      "sixteen letters!");
  CHECK_EQ(with_environment({{"RINGLET_TOKEN_FILE", path}}, Token::from_environment).secret(),
           "0123456789abcdef");

  CHECK_THROWS_WITH_AS(with_environment({{"RINGLET_TOKEN", "short"}}, Token::from_environment),
                       "RINGLET_TOKEN: expected at least 16 characters, found 5", InputError);
  chmod(path.c_str(), 0640);
  CHECK_THROWS_WITH_AS(with_environment({{"RINGLET_TOKEN_FILE", path}}, Token::from_environment),
                       str("RINGLET_TOKEN_FILE=", path,
                           ": expected a file of its owner alone (chmod 600), found mode 0640")
                           .c_str(),
                       InputError);
  const std::string absent = (folder / "absent").string();
  CHECK_THROWS_WITH_AS(
      with_environment({{"RINGLET_TOKEN_FILE", absent}}, Token::from_environment),
      str("RINGLET_TOKEN_FILE=", absent, ": cannot open: No such file or directory").c_str(),
      InputError);
  CHECK_THROWS_AS(
      with_environment({{"RINGLET_TOKEN_FILE", folder.path().string()}}, Token::from_environment),
      InputError);
}

TEST_SUITE_END();
