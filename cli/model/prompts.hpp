#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/generation/generation.hpp"

namespace troupe::cli {

/// How texts stand for tokens: each byte is one, or a text is a list of ids
/// ("5 17").
struct token_texts {
  std::int64_t vocabulary = 256;
  bool bytes = true;

  /// Throws `invalid_argument`, naming `what` the text is, for a byte or an id
  /// beyond the vocabulary, and for what is no list of ids.
  std::vector<std::int64_t> ids_of(std::string_view text,
                                   std::string_view what) const;
  /// As they are.
  std::string text_of(const std::vector<std::int64_t>& ids) const;
};

/// The prompts of a file: a text a line; of a `.jsonl`, an object a line with
/// "text" or "ids", and what it has of "max_tokens", "temperature", "top_k",
/// "top_p" and "seed" (of stream 0, so that equal seeds draw the same), in
/// place of those of `usual`. Empty lines are passed over. Throws
/// `invalid_argument` or `invalid_data`, naming `source` and the line, for
/// requests that are not legal with these options, too.
std::vector<generation_request> read_prompts(std::string_view content,
                                             const std::string& source,
                                             const token_texts& tokens,
                                             const generation_request& usual,
                                             const generation_options& options);

}  // namespace troupe::cli
