#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// How the next token is chosen. `top_k`, then `top_p`, leave out what is less
/// likely (nucleus sampling: Holtzman et al., 2020).
struct sampling_options {
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 0;    // of so many, the most likely ones; 0: of all
  double top_p = 1;          // of the fewest whose probabilities sum up to this
  std::uint64_t seed = 1;
  /// Draws of equal seeds and streams are the same. None: that of the request's
  /// place among those of a call, from 0.
  std::optional<std::uint64_t> stream = {};

  friend bool operator==(const sampling_options&,
                         const sampling_options&) = default;
};

/// Throws `invalid_argument` for a temperature that is negative or not finite,
/// a negative top_k, and a top_p outside (0, 1].
void require_legal(const sampling_options& options);

/// A sequence of tokens to continue.
struct generation_request {
  std::vector<std::int64_t> ids{};  // the prompt: at least one
  std::int64_t tokens = 200;        // at most so many more
  sampling_options sampling{};
};

struct generation_options {
  /// Positions that the model knows: a prompt has at most so many tokens, and
  /// with its continuation one more. 0: no limit.
  std::int64_t length = 0;
  /// A continuation ends before any of these, none of which is empty.
  std::vector<std::vector<std::int64_t>> stops{};
  /// Prompts of one length that run as the rows of one microbatch. More than
  /// one is faster, but products of matrices may round otherwise, depending on
  /// the number of rows.
  std::int64_t rows = 1;
  /// Microbatches of each replica in flight; the other prompts wait until one
  /// has ended. 0: twice as many as ranks.
  std::int32_t microbatches = 0;
  /// Positions of a step, at most: what is between two steps (the listener,
  /// an end of the run, prompts that waited) waits for that many tokens. The
  /// first step has one, each further one up to twice as many: powers of two,
  /// and this.
  std::int32_t positions = 16;
};

/// Why a continuation has ended: it has all its tokens, it met one of `stops`,
/// or the model knows no further positions.
enum class generation_end : std::uint8_t { tokens, stop, context };

/// "tokens", "stop" or "context".
std::string_view to_text(generation_end end);

struct generated {
  std::vector<std::int64_t> ids;        // behind the prompt
  std::optional<generation_end> end{};  // none: it goes on

  friend bool operator==(const generated&, const generated&) = default;
};

/// Told what a request has got so far.
using generation_listener =
  std::function<void(std::size_t request, const generated& so_far)>;

/// Throws `invalid_argument`, naming the prompt by its number from 1, for an
/// empty or too long prompt, negative ids, fewer than 0 tokens and illegal
/// sampling, and for options below their least values.
void require_legal(const std::vector<generation_request>& requests,
                   const generation_options& options);
/// The same for one request, named otherwise: "prompts.jsonl, line 3:".
void require_legal(const generation_request& request, const std::string& name,
                   const generation_options& options);

/// The oracle: one prompt, whose whole sequence is run again for each token.
/// `logits_of` maps ids [1, t] to logits [1, t, vocabulary].
generated generate_plainly(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  const generation_request& request, const generation_options& options);

}  // namespace troupe
