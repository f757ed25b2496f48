#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// What a client of a live job may do. `watch`: what changes nothing in the job
/// and writes nothing on its machine; `control`: everything that a client can
/// ask for.
enum class access_right : std::uint8_t { watch, control };

constexpr bool includes(access_right own, access_right needed) {
  return own >= needed;
}

/// Throws `invalid_argument`, which names the right and what it is needed for:
/// "to detach another client's monitor".
void require_right(access_right own, access_right needed,
                   std::string_view purpose);

/// The tokens by which a job's clients show their rights; an empty one is not
/// in use.
struct access_tokens {
  std::string watch{}, control{};

  bool empty() const { return watch.empty() && control.empty(); }
  /// Those in use.
  std::vector<std::pair<access_right, std::string>> all() const;
  /// Of whoever shows this token; none for another one. Takes the same time
  /// for any token of a length.
  std::optional<access_right> right_of(const std::string& shown) const;
};

/// Throws `invalid_argument` if a token is short, or both are the same.
void require_legal(const access_tokens& tokens);

}  // namespace troupe
