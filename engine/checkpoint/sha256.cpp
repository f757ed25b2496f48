#include "troupe/engine/checkpoint/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

void require(bool done) {
  if (!done)
    fail(error_code::internal, "SHA-256 can't be computed");
}

}  // namespace

sha256::sha256() : context_(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free) {
  require(context_
          && ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1);
}

void sha256::add(std::span<const std::byte> bytes) {
  require(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string sha256::digest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  require(::EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i)
    text += fmt::format("{:02x}", bytes.at(i));
  return text;
}

std::string sha256_of(std::span<const std::byte> bytes) {
  sha256 sum;
  sum.add(bytes);
  return sum.digest();
}

}  // namespace troupe
