#include "troupe/engine/plan/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/error.hpp"
#include "troupe/schedules/printable.hpp"

namespace troupe {

namespace {

struct cost_key {
  std::string_view text;
  plan_op_kind kind;
};

constexpr cost_key keys[]{
  {"f", plan_op_kind::forward},        {"b", plan_op_kind::backward},
  {"i", plan_op_kind::input_backward}, {"w", plan_op_kind::weight_backward},
  {"unshard", plan_op_kind::gather},   {"reshard", plan_op_kind::release},
  {"reduce", plan_op_kind::reduce},    {"norm", plan_op_kind::gradient_norm},
  {"update", plan_op_kind::update},
};

constexpr std::size_t most_stages = 1 << 20;
// In nanoseconds more than ten days; sums of them keep 1e-9 of themselves.
constexpr double most_cost = 1e15;

template <class Number>
bool parse(std::string_view text, Number& value) {
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc{} && stop == end;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// A figure for one stage applies beside those of all stages, which may come
// later in the text: it is kept apart until the end.
struct stage_figure {
  std::size_t stage;
  plan_op_kind kind;
  double value;
};

class cost_reader {
 public:
  void read(std::string_view entry) {
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos)
      refuse(entry, "it is not of the form key=number");
    double value = 0;
    if (!parse(entry.substr(equals + 1), value) || !std::isfinite(value)
        || value < 0)
      refuse(entry, "the cost is not a number of at least 0");
    if (value > most_cost)
      refuse(entry, "the cost is larger than 1e15; take a larger unit of time");
    const auto key = entry.substr(0, equals);
    if (key == "message")
      costs_.message = value;
    else
      set(entry, key, value);
  }

  op_costs finish() {
    for (const auto& figure : figures_) {
      if (costs_.of_stage.size() <= figure.stage)
        costs_.of_stage.resize(figure.stage + 1, costs_.of_kind);
      costs_.of_stage[figure.stage][static_cast<std::size_t>(figure.kind)] =
        figure.value;
    }
    return costs_;
  }

 private:
  [[noreturn]] static void refuse(std::string_view entry,
                                  std::string_view reason) {
    fail(error_code::malformed_text,
         "costs '{}': {}; known keys are f, b, i, w, unshard, reshard, "
         "reduce, norm, update and message",
         printable(entry), reason);
  }

  void set(std::string_view entry, std::string_view key, double value) {
    const auto dot = key.find('.');
    const auto* found =
      std::find_if(std::begin(keys), std::end(keys),
                   [&](const auto& k) { return k.text == key.substr(0, dot); });
    if (found == std::end(keys))
      refuse(entry, "the key is unknown");
    if (dot == std::string_view::npos) {
      costs_.of_kind[static_cast<std::size_t>(found->kind)] = value;
      return;
    }
    std::size_t stage = 0;
    if (!parse(key.substr(dot + 1), stage) || stage >= most_stages)
      refuse(entry, "the stage is not a number");
    figures_.push_back({stage, found->kind, value});
  }

  op_costs costs_;
  std::vector<stage_figure> figures_;
};

}  // namespace

op_costs parse_costs(std::string_view text) {
  cost_reader reader;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty()) {
      const auto entry = line.substr(0, line.find(','));
      line.remove_prefix(std::min(entry.size() + 1, line.size()));
      if (!trim(entry).empty())
        reader.read(trim(entry));
    }
  }
  return reader.finish();
}

op_costs load_costs(const std::string& path_or_text) {
  std::error_code failure;
  const auto is_file = std::filesystem::is_regular_file(path_or_text, failure);
  const auto text = is_file ? read_file(path_or_text) : path_or_text;
  try {
    return parse_costs(text);
  } catch (const error& reason) {
    if (is_file)
      fail(reason.code(), "{}: {}", path_or_text, reason.what());
    throw error{error_code::invalid_argument, reason.what()};
  }
}

}  // namespace troupe
