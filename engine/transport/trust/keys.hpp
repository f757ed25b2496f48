#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// A key derived from a job's token, for one purpose: it reveals neither the
/// token nor the key for another purpose.
using secret_key = std::array<unsigned char, 32>;

/// HKDF (RFC 5869) with SHA-256.
secret_key derive_key(std::string_view secret, std::string_view salt,
                      std::string_view purpose);

/// Unpredictable bytes. Throws `internal` if the system has none.
std::string random_bytes(std::size_t count);

}  // namespace troupe
