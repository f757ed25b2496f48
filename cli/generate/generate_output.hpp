#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/cli/model/prompts.hpp"

namespace troupe::cli {

/// Shows what is generated: of one prompt as it comes, of several in their
/// order as each ends, or as a JSON line each. One thread.
class generated_output {
 public:
  /// `longest_stop`: tokens that are not shown before more have come, as they
  /// may be the begin of a stop.
  generated_output(std::vector<generation_request> requests, token_texts tokens,
                   std::size_t longest_stop, bool json);

  /// As `generation_listener`. Throws `io` if it can't be printed.
  void see(std::size_t request, const generated& so_far);
  /// Prints what is left, and a line about all on standard error.
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
  std::vector<generated> made_;
  std::vector<double> seconds_;  // to each one's end
  std::size_t next_ = 0;         // to be shown
  std::size_t streamed_ = 0;     // tokens
  std::string unfinished_;       // bytes of a character that goes on
};

}  // namespace troupe::cli
