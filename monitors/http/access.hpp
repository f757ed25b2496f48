#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/monitors/http/serving.hpp"

namespace troupe {

/// What a client of a live job may do. `page`: read the job's page and metrics;
/// `watch`: whatever else changes nothing in the job and writes nothing on its
/// machine; `control`: everything that a client can ask for.
enum class access_right : std::uint8_t { none, page, watch, control };

constexpr bool includes(access_right own, access_right needed) {
  return own >= needed;
}

/// What `require_right` throws.
class missing_right : public error {
 public:
  using error::error;
};

/// Throws `missing_right`, an `invalid_argument` that names the right and what
/// it is needed for: "to detach monitors".
void require_right(access_right own, access_right needed,
                   std::string_view purpose);

/// The tokens that are in use.
std::vector<std::pair<access_right, std::string>> tokens_in_use(
  const access_tokens& tokens);
/// The right of a client with this token; none for an unknown token. Takes
/// equal time for all tokens of one length.
std::optional<access_right> right_of(const access_tokens& tokens,
                                     const std::string& token);

/// Throws `invalid_argument` if a token is short, or both are the same.
void require_legal(const access_tokens& tokens);

}  // namespace troupe
