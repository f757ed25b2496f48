#include "troupe/engine/transport/trust/access.hpp"

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

void require_right(access_right own, access_right needed,
                   std::string_view purpose) {
  if (!includes(own, needed))
    throw missing_right(
      error_code::invalid_argument,
      fmt::format(
        "this client may watch the job and not control it, which it needs {}; "
        "connect with the token of the job's --endpoint-control-token-file, "
        "whose file a client names with --token-file",
        purpose));
}

std::vector<std::pair<access_right, std::string>> access_tokens::all() const {
  std::vector<std::pair<access_right, std::string>> tokens;
  if (!watch.empty())
    tokens.emplace_back(access_right::watch, watch);
  if (!control.empty())
    tokens.emplace_back(access_right::control, control);
  return tokens;
}

std::optional<access_right> access_tokens::right_of(
  const std::string& token) const {
  std::optional<access_right> match;
  for (const auto& [right, other] : all())
    if (same_secret(token, other))
      match = right;
  return match;
}

void require_legal(const access_tokens& tokens) {
  for (const auto& [right, token] : tokens.all())
    if (token.size() < shortest_token)
      fail(error_code::invalid_argument,
           "a token of the endpoint has {} characters; use at least {} "
           "characters, as shorter ones could be guessed",
           token.size(), shortest_token);
  if (!tokens.empty() && tokens.watch == tokens.control)
    throw error(error_code::invalid_argument,
                "the tokens to watch and to control the job are the same; make "
                "another one for control");
}

}  // namespace troupe
