#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/generation/generation.hpp"

namespace troupe::cli {

/// The mapping between texts and tokens: each byte is a token, or a text is a
/// list of ids ("5 17").
struct token_texts {
  std::int64_t vocabulary = 256;
  bool bytes = true;

  /// `what` names the text in errors. Throws `invalid_argument` for a byte or
  /// an id beyond the vocabulary, and for text that is not a list of ids.
  std::vector<std::int64_t> ids_of(std::string_view text,
                                   std::string_view what) const;
  /// The bytes of the tokens, or their ids separated by spaces.
  std::string text_of(const std::vector<std::int64_t>& ids) const;
};

/// Reads a file's prompts: one text per line, or in a `.jsonl` one object per
/// line with "text" or "ids". Its optional fields "max_tokens", "temperature",
/// "top_k", "top_p" and "seed" (of stream 0, so that equal seeds draw equal
/// numbers) override those of `usual`. Empty lines are skipped. Throws
/// `invalid_argument` or `invalid_data`, naming `source` and the line, also for
/// requests that these options don't allow.
std::vector<generation_request> read_prompts(std::string_view content,
                                             const std::string& source,
                                             const token_texts& tokens,
                                             const generation_request& usual,
                                             const generation_options& options);

}  // namespace troupe::cli
