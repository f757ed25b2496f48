#include "troupe/engine/transport/trust/keys.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

secret_key hash(std::string_view key, std::string_view bytes) {
  secret_key digest{};
  unsigned size = 0;
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             digest.data(), &size)
        == nullptr
      || size != digest.size())
    fail(error_code::internal, "OpenSSL has no HMAC with SHA-256");
  return digest;
}

}  // namespace

secret_key derive_key(std::string_view secret, std::string_view salt,
                      std::string_view purpose) {
  const auto extracted = hash(salt, secret);
  // One round of expansion yields one hash length.
  return hash(
    {reinterpret_cast<const char*>(extracted.data()), extracted.size()},
    std::string(purpose) + '\x01');
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                   static_cast<int>(count))
      != 1)
    fail(error_code::internal, "the system provides no random bytes");
  return bytes;
}

}  // namespace troupe
