#include "troupe/schedules/cpp_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

std::string_view name_of(op_kind kind) {
  constexpr std::string_view names[]{"forward", "backward", "input_backward",
                                     "weight_backward"};
  return names[static_cast<std::size_t>(kind)];
}

std::string cpp_op(const op& what) {
  return fmt::format("{{{}, {}, {}, {}, {}{}}}", what.stage, what.microbatch,
                     what.slice, what.copy, name_of(what.kind),
                     what.overlaps_next ? ", true" : "");
}

// Items in lines of at most 80 columns.
std::string in_lines(const std::vector<std::string>& items,
                     std::string_view indent) {
  constexpr std::size_t columns = 79;
  std::string text;
  std::string line{indent};
  for (const auto& item : items) {
    if (line.size() > indent.size() && line.size() + item.size() > columns) {
      text += line + '\n';
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + item + ',';
  }
  return text + line;
}

std::string cpp_lane(const lane& ops) {
  std::vector<std::string> items;
  for (const auto& what : ops)
    items.push_back(cpp_op(what));
  return fmt::format("        {{\n{}\n        }},\n",
                     in_lines(items, "          "));
}

bool is_looped(const schedule& lanes) {
  return lanes.placement == placement::looped(lanes.ranks(), lanes.stages());
}

std::string cpp_placement(const placement& placement) {
  std::string copies;
  for (const auto& ranks : placement.rank_by_stage)
    copies += fmt::format("{}{{{}}}", copies.empty() ? "" : ", ",
                          fmt::join(ranks, ", "));
  return fmt::format(
    "troupe::placement{{.ranks = {}, .rank_by_stage = {{{}}}}}",
    placement.ranks, copies);
}

std::string cpp_shape(const schedule_shape& shape) {
  auto text =
    fmt::format("{{.ranks = {}, .stages_per_rank = {}, .microbatches = {}",
                shape.ranks, shape.stages_per_rank, shape.microbatches);
  if (shape.breadth != 0)
    text += fmt::format(", .breadth = {}", shape.breadth);
  if (shape.slices != 1)
    text += fmt::format(", .slices = {}", shape.slices);
  return text + '}';
}

// The first arguments of `schedule::build`.
std::string cpp_sizes(const schedule& lanes) {
  if (is_looped(lanes))
    return cpp_shape({.ranks = lanes.ranks(),
                      .stages_per_rank = lanes.stages() / lanes.ranks(),
                      .microbatches = lanes.microbatches,
                      .slices = lanes.slices});
  if (lanes.slices > 1)
    fail(error_code::invalid_argument,
         "{}: schedule::build can't express slices on stages that are not "
         "placed looped; write the text form (--format schedule)",
         lanes.name);
  return fmt::format("{}, {}", cpp_placement(lanes.placement),
                     lanes.microbatches);
}

// The lines that give the schedule its update rule, and return it.
std::string cpp_update(const schedule& lanes) {
  if (lanes.update.every == 0)
    return {};
  return fmt::format(
    "  result.update = {{.every = {}, .lag = {}}};\n"
    "  return result;\n",
    lanes.update.every,
    lanes.update.lag == update_rule::newest ? "troupe::update_rule::newest"
                                            : std::to_string(lanes.update.lag));
}

// As the content of a string literal.
std::string quoted(const std::string& text) {
  std::string result;
  for (const auto c : printable(text, text.size()))
    result += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return result;
}

}  // namespace

std::string cpp_name(const std::string& name) {
  std::string result{"schedule_"};
  for (const auto c : name)
    result +=
      (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
        ? c
        : '_';
  return result;
}

std::string to_cpp(const schedule& lanes) {
  std::string rows;
  for (const auto& each : lanes.lanes)
    rows += cpp_lane(each);
  return fmt::format(
    "#include <vector>\n\n"
    "#include \"troupe/schedules/lane_builder.hpp\"\n\n"
    "/// {0} ranks, {1} stages, {2} microbatches.\n"
    "troupe::schedule {3}() {{\n"
    "  {7} troupe::schedule::build(\n"
    "    {4},\n"
    "    [](troupe::lane_builder& rank) {{\n"
    "      using enum troupe::op_kind;\n"
    "      // By rank: stage, microbatch, slice, copy and kind; true: this op "
    "and\n"
    "      // the next one overlap.\n"
    "      static const std::vector<troupe::lane> lanes{{\n"
    "{5}"
    "      }};\n"
    "      for (const auto& next : lanes[static_cast<std::size_t>("
    "rank.rank())])\n"
    "        rank.place(next);\n"
    "    }},\n"
    "    \"{6}\");\n"
    "{8}"
    "}}\n",
    lanes.ranks(), lanes.stages(), lanes.microbatches, cpp_name(lanes.name),
    cpp_sizes(lanes), rows, quoted(lanes.name),
    lanes.update.every > 0 ? "auto result =" : "return", cpp_update(lanes));
}

std::string to_cpp_call(const std::string& name, const schedule_shape& shape) {
  return fmt::format(
    "#include \"troupe/schedules/builtin.hpp\"\n\n"
    "troupe::schedule {}() {{\n"
    "  return troupe::make_schedule(\n"
    "    \"{}\",\n"
    "    {});\n"
    "}}\n",
    cpp_name(name), quoted(name), cpp_shape(shape));
}

}  // namespace troupe
