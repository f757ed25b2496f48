#include "troupe/engine/plan/entries.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/schedules/csv.hpp"

namespace troupe {

namespace {

constexpr std::int32_t most_stages = 1 << 16;  // a row of figures each
// Sums keep a relative precision of 1e-9.
constexpr double most = 1e15;

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

class entry_parser {
 public:
  entry_parser(std::string_view what, std::string_view keys)
    : what_(what), keys_(keys) {}

  keyed_number parse(std::string_view text) const {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos)
      refuse(text, "it is not of the form key=number");
    const auto key = text.substr(0, equals);
    const auto dot = key.find('.');
    keyed_number read{std::string{text}, std::string{key.substr(0, dot)},
                      std::nullopt, value_of(text, text.substr(equals + 1))};
    if (dot != std::string_view::npos) {
      read.stage = parse_number<std::int32_t>(key.substr(dot + 1));
      if (!read.stage || *read.stage < 0 || *read.stage >= most_stages)
        refuse(text, "the stage is not a number");
    }
    return read;
  }

 private:
  double value_of(std::string_view entry, std::string_view text) const {
    const auto value = parse_number<double>(text);
    if (!value || !std::isfinite(*value) || *value < 0)
      refuse(entry, "the value is not a number of at least 0");
    if (*value > most)
      refuse(entry, "the value is larger than 1e15; take a larger unit");
    return *value;
  }
  [[noreturn]] void refuse(std::string_view entry,
                           std::string_view reason) const {
    refuse_entry(entry, reason, what_, keys_);
  }

  std::string_view what_, keys_;
};

}  // namespace

void refuse_entry(std::string_view entry, std::string_view reason,
                  std::string_view what, std::string_view known_keys) {
  fail(error_code::malformed_text, "{} '{}': {}; known keys are {}", what,
       printable(entry), reason, known_keys);
}

std::vector<keyed_number> parse_entries(std::string_view text,
                                        std::string_view what,
                                        std::string_view known_keys) {
  const entry_parser parser(what, known_keys);
  std::vector<keyed_number> entries;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty()) {
      const auto entry = line.substr(0, line.find(','));
      line.remove_prefix(std::min(entry.size() + 1, line.size()));
      if (!trim(entry).empty())
        entries.push_back(parser.parse(trim(entry)));
    }
  }
  return entries;
}

entries_text find_entries(const std::string& path_or_text,
                          std::string_view what) {
  std::error_code failure;
  if (std::filesystem::is_regular_file(path_or_text, failure))
    return {read_file(path_or_text), true};
  if (std::filesystem::exists(path_or_text, failure))
    fail(error_code::invalid_argument,
         "{} '{}': it is no regular file; give a file of entries such as f=1, "
         "or the entries",
         what, printable(path_or_text));
  return {path_or_text, false};
}

}  // namespace troupe
