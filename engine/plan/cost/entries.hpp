#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"

namespace troupe {

/// Two ranks that exchange messages, the lower one first.
using rank_pair = std::pair<std::int32_t, std::int32_t>;

/// Sums of entries up to this one keep a relative precision of 1e-9.
inline constexpr double largest_entry = 1e15;

/// "key=number", "key.stage=number" or "key.rank-rank=number".
struct keyed_number {
  std::string text;  // as written
  std::string key;
  std::optional<std::int32_t> stage;
  std::optional<rank_pair> link;
  double value = 0;
};

/// Reads entries of one kind.
struct entry_reader {
  std::string_view what;  // for messages: "costs"
  std::string_view keys;
  bool has_links = false;

  /// Entries that end in a comma or a new line; '#' begins a comment. Throws
  /// `error` (malformed_text) naming an entry that is of another form, whose
  /// value is not in 0..1e15, or whose key stands there twice.
  std::vector<keyed_number> read(std::string_view text) const;
  /// Throws malformed_text: "costs 'x=1': the key is unknown; known keys are
  /// ...".
  [[noreturn]] void refuse(std::string_view entry,
                           std::string_view reason) const;

 private:
  keyed_number read_entry(std::string_view text) const;
};

/// What `path_or_text` holds: a file's text if a file has this name, else the
/// text itself.
struct entries_text {
  std::string text;
  bool of_file = false;
};
/// Throws invalid_argument for a folder or device, io for a file that can't be
/// read or does not exist.
entries_text find_entries(const std::string& path_or_text,
                          std::string_view what);

/// Parses what `find_entries` finds. In a file what is wrong is the file's
/// error, with its name; else it is wrong usage (invalid_argument).
template <class Parse>
auto load_entries(const std::string& path_or_text, std::string_view what,
                  Parse&& parse) {
  const auto [text, of_file] = find_entries(path_or_text, what);
  try {
    return parse(text);
  } catch (const error& reason) {
    throw of_file ? error{reason.code(), path_or_text + ": " + reason.what()}
                  : error{error_code::invalid_argument, reason.what()};
  }
}

}  // namespace troupe
