#include "troupe/engine/transport/trust/secret_file.hpp"

#include <openssl/crypto.h>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/private_file.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

namespace {

constexpr std::size_t longest = 4096;
constexpr auto* white_space = " \t\r\n\v\f";

[[noreturn]] void refuse_token(const std::string& path,
                               const std::string& why) {
  fail(error_code::invalid_argument, "{}: {}", printable(path), why);
}

/// Reads at most one byte more than the longest token has.
std::string bytes_of(const std::string& path) {
  try {
    input_file file(path);
    require_private(file);
    return file.read(longest + 1);
  } catch (const error& reason) {
    fail(reason.code(), "the token: {}", reason.what());
  }
}

std::string without_white_space(const std::string& bytes) {
  const auto first = bytes.find_first_not_of(white_space);
  if (first == std::string::npos)
    return {};
  return bytes.substr(first, bytes.find_last_not_of(white_space) + 1 - first);
}

}  // namespace

std::string read_secret(const std::string& path) {
  if (path.empty())
    fail(error_code::invalid_argument,
         "the name of the token file is empty; give one");
  const auto bytes = bytes_of(path);
  if (bytes.size() > longest)
    refuse_token(
      path, fmt::format("holds more than {} bytes; is it a token?", longest));
  auto token = without_white_space(bytes);
  if (token.size() < shortest_token)
    refuse_token(
      path,
      fmt::format("has {} characters; a token has at least {} characters: "
                  "`head -c 32 /dev/urandom | base64` writes one",
                  token.size(), shortest_token));
  if (token.find_first_of(white_space) != std::string::npos
      || token.find('\0') != std::string::npos)
    refuse_token(path, "holds more than one word; write only the token");
  return token;
}

bool same_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size()
         && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace troupe
