#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// The project's own text of a schedule: everything in CSV, plus placement,
/// slices and copies. Round-trips. For example:
///
///   troupe schedule 1
///   name two_slices
///   microbatches 1
///   slices 2
///   placement 0 1
///   rank 0: 0F0.0 0F0.1 0B0.1 0B0.0
///   rank 1: 1F0.0 1F0.1 1B0.1 1B0.0
///
/// `update_every N` and `update_lag L` may follow the slices: the schedule's
/// update rule; without a lag forwards read the newest parameters. A
/// `placement` line gives the rank of each stage; a second one places copy 1,
/// whose ops are written 2F3@1. An overlapping pair is (0F7;7B3).
std::string to_text_form(const schedule& lanes);

/// Throws `error` (malformed_text, invalid_schedule) that names source, line
/// and reason.
schedule from_text_form(std::string_view text, std::string_view source);

/// Whether a text begins like the text form.
bool is_text_form(std::string_view text);

/// Parses lines of "key value"; shared by the text forms.
class line_reader {
 public:
  line_reader(std::string_view text, std::string_view source)
    : rest_{text}, source_{source} {}

  bool done() const { return rest_.empty(); }
  /// The number of the line last read, from 1.
  std::size_t line() const { return line_; }
  std::string_view next_line();
  /// The value of the next line, which must have this key.
  std::string_view expect(std::string_view key);
  std::int32_t expect_number(std::string_view key, std::int32_t least,
                             std::int32_t most);
  std::vector<std::int32_t> expect_numbers(std::string_view key);
  bool next_is(std::string_view key) const;

  /// Throws malformed_text at the line last read.
  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  std::int32_t number(std::string_view text) const;

  std::string_view rest_;
  std::string_view source_;
  std::size_t line_ = 0;
};

/// Words between single blanks, or between other separators.
std::vector<std::string_view> split_words(std::string_view text,
                                          char separator = ' ');

/// Reads the lines of an update rule, if there are any.
update_rule read_update(line_reader& lines, std::int32_t microbatches);
std::string write_update(const update_rule& update);

/// Reads `placement` lines, one for each copy. Ranks must be 0..P-1.
placement read_placement(line_reader& lines);
std::string write_placement(const placement& placement);

}  // namespace troupe
