#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/cli/model/prompts.hpp"

namespace troupe::cli {

/// Prints generated text: a single prompt's as it comes, several prompts' in
/// their order as each ends, or one JSON line per prompt. For one thread.
class generated_output {
 public:
  /// `longest_stop`: the number of latest tokens to withhold, as they may begin
  /// a stop.
  generated_output(std::vector<generation_request> requests, token_texts tokens,
                   std::size_t longest_stop, bool json);

  /// Called as a `generation_listener`. Throws `io` if printing fails.
  void see(std::size_t request, const generated& so_far);
  /// Prints the rest, and a summary line on standard error.
  void finish(const std::vector<generated>& results);

 private:
  void stream(const generated& so_far);
  std::string shown(const std::vector<std::int64_t>& ids) const;
  std::string block_of(std::size_t request) const;
  std::string json_of(std::size_t request) const;
  void print_ended();
  void warn_of_context(std::size_t request) const;

  std::vector<generation_request> requests_;
  token_texts tokens_;
  std::size_t longest_stop_;
  bool json_;
  std::int64_t began_;  // host ns
  std::vector<generated> results_;
  std::vector<double> seconds_;  // until the end of each
  std::size_t next_ = 0;         // the next prompt to print
  std::size_t streamed_ = 0;     // tokens
  std::string unfinished_;       // the begun bytes of a character
};

}  // namespace troupe::cli
