#include "troupe/monitors/http/access.hpp"

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
        "this client may watch the job but not control it, which is needed {}; "
        "connect with the token of the job's --endpoint-control-token-file, "
        "whose file a client names with --token-file",
        purpose));
}

std::vector<std::pair<access_right, std::string>> tokens_in_use(
  const access_tokens& tokens) {
  std::vector<std::pair<access_right, std::string>> used;
  if (!tokens.watch.empty())
    used.emplace_back(access_right::watch, tokens.watch);
  if (!tokens.control.empty())
    used.emplace_back(access_right::control, tokens.control);
  return used;
}

std::optional<access_right> right_of(const access_tokens& tokens,
                                     const std::string& token) {
  std::optional<access_right> match;
  for (const auto& [right, other] : tokens_in_use(tokens))
    if (same_secret(token, other))
      match = right;
  return match;
}

void require_legal(const access_tokens& tokens) {
  for (const auto& [right, token] : tokens_in_use(tokens))
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
