#include "troupe/engine/plan/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/schedules/csv.hpp"

namespace troupe {

namespace {

constexpr std::int32_t most_stages = 1 << 16;  // a row of costs each
// More than ten days in nanoseconds; sums keep a relative precision of 1e-9.
constexpr double most_cost = 1e15;

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

[[noreturn]] void refuse(std::string_view entry, std::string_view reason) {
  fail(error_code::malformed_text,
       "costs '{}': {}; known keys are f, b, i, w, unshard, reshard, "
       "reduce, norm, update and message",
       printable(entry), reason);
}

double parse_value(std::string_view entry, std::string_view text) {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0)
    refuse(entry, "the cost is not a number of at least 0");
  if (*value > most_cost)
    refuse(entry, "the cost is larger than 1e15; take a larger unit of time");
  return *value;
}

op_costs::entry parse_entry(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos)
    refuse(text, "it is not of the form key=number");
  const auto value = parse_value(text, text.substr(equals + 1));
  const auto key = text.substr(0, equals);
  const auto dot = key.find('.');
  const auto* found =
    std::ranges::find(op_actions, key.substr(0, dot), &op_traits::cost_key);
  const auto of_stage = dot != std::string_view::npos;
  if (found == op_actions.end() || found->cost_key.empty()
      || (of_stage && found->kind == plan_op_kind::send))
    refuse(text, "the key is unknown");
  const auto stage =
    of_stage ? parse_number<std::int32_t>(key.substr(dot + 1)) : none;
  if (!stage || (of_stage && (*stage < 0 || *stage >= most_stages)))
    refuse(text, "the stage is not a number");
  return {std::string{text}, found->kind, *stage, value};
}

// A stage's row starts from the figures for all stages, which may come later in
// the text: so single stages are handled last.
op_costs make_costs(std::vector<op_costs::entry> entries) {
  op_costs costs;
  for (const auto& [text, kind, stage, value] : entries)
    if (kind == plan_op_kind::send)
      costs.message = value;
    else if (stage == none)
      costs.of_kind[static_cast<std::size_t>(kind)] = value;
  for (const auto& [text, kind, stage, value] : entries) {
    if (stage == none)
      continue;
    const auto row = static_cast<std::size_t>(stage);
    if (costs.of_stage.size() <= row)
      costs.of_stage.resize(row + 1, costs.of_kind);
    costs.of_stage[row][static_cast<std::size_t>(kind)] = value;
  }
  costs.entries = std::move(entries);
  return costs;
}

}  // namespace

op_costs parse_costs(std::string_view text) {
  std::vector<op_costs::entry> entries;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty()) {
      const auto entry = line.substr(0, line.find(','));
      line.remove_prefix(std::min(entry.size() + 1, line.size()));
      if (!trim(entry).empty())
        entries.push_back(parse_entry(trim(entry)));
    }
  }
  return make_costs(std::move(entries));
}

op_costs load_costs(const std::string& path_or_text) {
  std::error_code failure;
  const auto is_file = std::filesystem::is_regular_file(path_or_text, failure);
  if (!is_file && std::filesystem::exists(path_or_text, failure))
    fail(error_code::invalid_argument,
         "costs '{}': it is no regular file; give a file of entries such as "
         "f=1, or the entries",
         printable(path_or_text));
  const auto text = is_file ? read_file(path_or_text) : path_or_text;
  try {
    return parse_costs(text);
  } catch (const error& reason) {
    if (is_file)
      fail(reason.code(), "{}: {}", path_or_text, reason.what());
    throw error{error_code::invalid_argument, reason.what()};
  }
}

std::vector<std::string> without_effect(const op_costs& costs, const plan& of) {
  std::vector<std::string> unused;
  for (const auto& entry : costs.entries)
    if (std::ranges::none_of(of.ops, [&](const plan_op& op) {
          return op.kind == entry.kind
                 && (entry.stage == none || op.stage == entry.stage);
        }))
      unused.push_back(entry.text);
  return unused;
}

}  // namespace troupe
