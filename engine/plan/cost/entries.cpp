#include "troupe/engine/plan/cost/entries.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>

#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

constexpr std::int32_t most_stages = 1 << 16;  // a row of figures each
constexpr std::int32_t most_ranks = 1 << 16;

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

class entry_parser {
 public:
  entry_parser(std::string_view what, std::string_view keys, entry_form form)
    : what_(what), keys_(keys), form_(form) {}

  keyed_number parse(std::string_view text) const {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos)
      refuse(text, "it does not have the form key=number");
    const auto key = text.substr(0, equals);
    const auto dot = key.find('.');
    keyed_number read{.text = std::string{text},
                      .key = std::string{key.substr(0, dot)},
                      .stage = {},
                      .link = {},
                      .value = value_of(text, text.substr(equals + 1))};
    if (dot != std::string_view::npos)
      read_place(key.substr(dot + 1), read);
    return read;
  }

 private:
  void read_place(std::string_view place, keyed_number& read) const {
    if (form_ == entry_form::of_stages_and_links
        && place.find('-', 1) != std::string_view::npos) {
      read.link = link_of(place);
      if (!read.link)
        refuse(read.text, "the link is not two ranks, as in 0-1");
      return;
    }
    read.stage = number_below(most_stages, place);
    if (!read.stage)
      refuse(read.text, "the stage is not a number");
  }
  static std::optional<std::int32_t> number_below(std::int32_t end,
                                                  std::string_view text) {
    const auto number = parse_number<std::int32_t>(text);
    return number && *number >= 0 && *number < end ? number : std::nullopt;
  }
  static std::optional<rank_pair> link_of(std::string_view text) {
    const auto dash = text.find('-');
    const auto a = number_below(most_ranks, text.substr(0, dash));
    const auto b = number_below(most_ranks, text.substr(dash + 1));
    if (!a || !b || *a == *b)
      return std::nullopt;
    return std::minmax(*a, *b);
  }
  double value_of(std::string_view entry, std::string_view text) const {
    const auto value = parse_number<double>(text);
    if (!value || !std::isfinite(*value) || *value < 0)
      refuse(entry, "the value is not a number of at least 0");
    if (*value > largest_entry)
      refuse(entry, "the value is larger than 1e15; use a larger unit");
    return *value;
  }
  [[noreturn]] void refuse(std::string_view entry,
                           std::string_view reason) const {
    refuse_entry(entry, reason, what_, keys_);
  }

  std::string_view what_, keys_;
  entry_form form_;
};

void require_once(const std::vector<keyed_number>& entries,
                  std::string_view what, std::string_view known_keys) {
  std::set<std::tuple<std::string_view, std::optional<std::int32_t>,
                      std::optional<rank_pair>>>
    seen;
  for (const auto& each : entries)
    if (!seen.emplace(each.key, each.stage, each.link).second)
      refuse_entry(each.text, "the key appears twice", what, known_keys);
}

}  // namespace

void refuse_entry(std::string_view entry, std::string_view reason,
                  std::string_view what, std::string_view known_keys) {
  fail(error_code::malformed_text, "{} '{}': {}; known keys are {}", what,
       printable(entry), reason, known_keys);
}

std::vector<keyed_number> parse_entries(std::string_view text,
                                        std::string_view what,
                                        std::string_view known_keys,
                                        entry_form form) {
  const entry_parser parser(what, known_keys, form);
  std::vector<keyed_number> entries;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    for (line = trim(line); !line.empty();) {
      const auto entry = line.substr(0, line.find(','));
      line.remove_prefix(std::min(entry.size() + 1, line.size()));
      entries.push_back(parser.parse(trim(entry)));
    }
  }
  require_once(entries, what, known_keys);
  return entries;
}

entries_text find_entries(const std::string& path_or_text,
                          std::string_view what) {
  std::error_code failure;
  if (std::filesystem::is_regular_file(path_or_text, failure))
    return {read_file(path_or_text), true};
  if (std::filesystem::exists(path_or_text, failure))
    fail(error_code::invalid_argument,
         "{} '{}': it is not a regular file; give a file of entries such as "
         "f=1, or the entries themselves",
         what, printable(path_or_text));
  return {path_or_text, false};
}

}  // namespace troupe
