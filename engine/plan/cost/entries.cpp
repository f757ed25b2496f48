#include "troupe/engine/plan/cost/entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/schedules/text_form.hpp"

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

std::optional<std::int32_t> number_below(std::int32_t end,
                                         std::string_view text) {
  const auto number = parse_number<std::int32_t>(text);
  return number && *number >= 0 && *number < end ? number : std::nullopt;
}

std::optional<rank_pair> link_of(std::string_view text) {
  const auto dash = text.find('-');
  const auto a = number_below(most_ranks, text.substr(0, dash));
  const auto b = number_below(most_ranks, text.substr(dash + 1));
  if (!a || !b || *a == *b)
    return std::nullopt;
  return std::minmax(*a, *b);
}

}  // namespace

void entry_reader::refuse(std::string_view entry,
                          std::string_view reason) const {
  fail(error_code::malformed_text, "{} '{}': {}; known keys are {}", what,
       printable(entry), reason, keys);
}

keyed_number entry_reader::read_entry(std::string_view text) const {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos)
    refuse(text, "it does not have the form key=number");
  const auto value = parse_number<double>(text.substr(equals + 1));
  if (!value || !std::isfinite(*value) || *value < 0)
    refuse(text, "the value is not a number of at least 0");
  if (*value > largest_entry)
    refuse(text, "the value is larger than 1e15; use a larger unit");
  const auto key = text.substr(0, equals);
  const auto dot = key.find('.');
  keyed_number read{.text = std::string{text},
                    .key = std::string{key.substr(0, dot)},
                    .stage = {},
                    .link = {},
                    .value = *value};
  if (dot == std::string_view::npos)
    return read;
  const auto place = key.substr(dot + 1);
  if (has_links && place.find('-', 1) != std::string_view::npos) {
    read.link = link_of(place);
    if (!read.link)
      refuse(text, fmt::format("the link is not two ranks below {}, as in 0-1",
                               most_ranks));
  } else {
    read.stage = number_below(most_stages, place);
    if (!read.stage)
      refuse(text,
             fmt::format("the stage is not a number below {}", most_stages));
  }
  return read;
}

std::vector<keyed_number> entry_reader::read(std::string_view text) const {
  std::vector<keyed_number> entries;
  for (const auto line : split_words(text, '\n'))
    for (const auto entry :
         split_words(trim(line.substr(0, line.find('#'))), ','))
      entries.push_back(read_entry(trim(entry)));
  std::set<std::tuple<std::string_view, std::optional<std::int32_t>,
                      std::optional<rank_pair>>>
    seen;
  for (const auto& each : entries)
    if (!seen.emplace(each.key, each.stage, each.link).second)
      refuse(each.text, "the key appears twice");
  return entries;
}

namespace {

/// Whether a text is a path rather than entries, "all" or a number.
bool looks_like_path(const std::string& text) {
  return text.find('=') == text.npos && !parse_number<double>(text)
         && text.find_first_of("/.") != text.npos;
}

}  // namespace

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
  if (looks_like_path(path_or_text))
    fail(error_code::io,
         "{}: can't be read: there is no such file; give one with entries such "
         "as f=1, or the entries themselves",
         printable(path_or_text));
  return {path_or_text, false};
}

}  // namespace troupe
