#include "troupe/schedules/text_form.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/schedules/cell.hpp"
#include "troupe/schedules/op.hpp"
#include "troupe/schedules/schedule_name.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

constexpr std::string_view heading = "troupe schedule 1";

lane read_lane(line_reader& lines, std::int32_t rank) {
  lane ops;
  for (const auto text :
       split_words(lines.expect(fmt::format("rank {}:", rank))))
    try {
      const auto what = parse_cell(text, spelling::project);
      if (what.kind != cell_kind::compute && what.kind != cell_kind::pair)
        fail(error_code::malformed_text, "a lane holds only compute ops");
      ops.push_back(what.first);
      if (what.kind == cell_kind::pair)
        ops.push_back(what.second);
    } catch (const error& reason) {
      lines.refuse(fmt::format("'{}': {}", printable(text), reason.what()));
    }
  return ops;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text,
                                          char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::string_view line_reader::next_line() {
  ++line_;
  if (rest_.empty())
    refuse("the text ends unexpectedly");
  const auto end = std::min(rest_.find('\n'), rest_.size());
  auto line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  while (line.ends_with('\r'))
    line.remove_suffix(1);
  return line;
}

bool line_reader::next_is(std::string_view key) const {
  return rest_.starts_with(key);
}

std::string_view line_reader::expect(std::string_view key) {
  auto line = next_line();
  if (!line.starts_with(key) || line.substr(key.size(), 1) > " ")
    refuse(fmt::format("expected '{} ...', found '{}'", key, printable(line)));
  line.remove_prefix(std::min(key.size() + 1, line.size()));
  return line;
}

std::int32_t line_reader::number(std::string_view text) const {
  const auto value = parse_number<std::int32_t>(text);
  if (!value)
    refuse(fmt::format("'{}' is not a number", printable(text)));
  return *value;
}

std::int32_t line_reader::expect_number(std::string_view key,
                                        std::int32_t least, std::int32_t most) {
  const auto value = number(expect(key));
  if (value < least || value > most)
    refuse(
      fmt::format("{} must be in {}..{}, but is {}", key, least, most, value));
  return value;
}

std::vector<std::int32_t> line_reader::expect_numbers(std::string_view key) {
  std::vector<std::int32_t> values;
  for (const auto text : split_words(expect(key)))
    values.push_back(number(text));
  return values;
}

void line_reader::refuse(std::string_view reason) const {
  fail(error_code::malformed_text, "{}, line {}: {}", source_, line_, reason);
}

placement read_placement(line_reader& lines) {
  placement result{.ranks = 0};
  while (lines.next_is("placement")) {
    auto& ranks =
      result.rank_by_stage.emplace_back(lines.expect_numbers("placement"));
    if (ranks.empty() || *std::min_element(ranks.begin(), ranks.end()) < 0
        || ranks.size() != result.rank_by_stage[0].size())
      lines.refuse("each copy has one rank, from 0, for each stage");
    if (result.copies() > 2)
      lines.refuse("a stage has at most two copies");
    const auto last = *std::max_element(ranks.begin(), ranks.end());
    if (last >= most_microbatches)
      lines.refuse("a rank's number is too large");
    result.ranks = std::max(result.ranks, last + 1);
  }
  if (result.ranks == 0)
    lines.refuse("a line 'placement ...' must follow");
  return result;
}

std::string write_placement(const placement& placement) {
  std::string text;
  for (const auto& ranks : placement.rank_by_stage)
    text += fmt::format("placement {}\n", fmt::join(ranks, " "));
  return text;
}

update_rule read_update(line_reader& lines, std::int32_t microbatches) {
  update_rule update;
  if (!lines.next_is("update_every"))
    return update;
  update.every = lines.expect_number("update_every", 1, microbatches);
  if (lines.next_is("update_lag"))
    update.lag = lines.expect_number("update_lag", 0, microbatches);
  return update;
}

std::string write_update(const update_rule& update) {
  if (update.every == 0)
    return {};
  return fmt::format("update_every {}\n", update.every)
         + (update.lag == update_rule::newest
              ? ""
              : fmt::format("update_lag {}\n", update.lag));
}

std::string to_text_form(const schedule& lanes) {
  auto text =
    fmt::format("{}\nname {}\nmicrobatches {}\nslices {}\n{}{}", heading,
                lanes.name, lanes.microbatches, lanes.slices,
                write_update(lanes.update), write_placement(lanes.placement));
  const bool slices = lanes.slices > 1;
  for (std::size_t rank = 0; rank < lanes.lanes.size(); ++rank) {
    text += fmt::format("rank {}:", rank);
    const auto& ops = lanes.lanes[rank];
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i].overlaps_next) {
        text += fmt::format(" ({};{})", to_text(ops[i], slices),
                            to_text(ops[i + 1], slices));
        ++i;
      } else {
        text += ' ' + to_text(ops[i], slices);
      }
    text += '\n';
  }
  return text;
}

schedule from_text_form(std::string_view text, std::string_view source) {
  line_reader lines{text, source};
  if (lines.next_line() != heading)
    lines.refuse(fmt::format("expected '{}'", heading));
  schedule result;
  result.name = schedule_name(lines.expect("name"));
  result.microbatches =
    lines.expect_number("microbatches", 1, most_microbatches);
  result.slices = lines.expect_number("slices", 1, INT16_MAX);
  result.update = read_update(lines, result.microbatches);
  result.placement = read_placement(lines);
  const auto before_ranks = lines.line();
  std::size_t ops = 0;
  for (std::int32_t rank = 0; rank < result.ranks(); ++rank)
    ops += result.lanes.emplace_back(read_lane(lines, rank)).size();
  if (!lines.done())
    lines.refuse("text after the last rank");
  if (ops < slot_count(result))
    fail(error_code::invalid_schedule,
         "{}: has {} ops, but {} stages x {} microbatches x {} slices need at "
         "least {}",
         source, ops, result.stages(), result.microbatches, result.slices,
         slot_count(result));
  validate(result, source, [&](std::int32_t rank, std::size_t index) {
    return fmt::format("{}, line {}, rank {}, op {}", source,
                       before_ranks + slot(rank) + 1, rank, index);
  });
  return result;
}

bool is_text_form(std::string_view text) {
  return text.starts_with("troupe schedule");
}

}  // namespace troupe
