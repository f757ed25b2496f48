#include "troupe/engine/plan/text/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "troupe/base/fail.hpp"
#include "troupe/base/fnv_hash.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/compile/check_lanes.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/cell.hpp"
#include "troupe/schedules/schedule_name.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe {

namespace {

constexpr std::string_view heading = "troupe plan 1";

bool is_collective(plan_op_kind kind) {
  return traits_of(kind).type == op_class::collective;
}

// An op's word; '+' marks an overlap with the next compute op, '!' a
// collective on the compute stream.
std::string word(const plan& plan, const plan_op& what) {
  const bool alone =
    is_collective(what.kind) && what.stream == stream_kind::compute;
  return to_text(plan, what) + (what.overlaps_next ? "+" : alone ? "!" : "");
}

// Takes the stage at the other end of a transfer, as in "0SEND_F3>2", off a
// word; `none` without one.
std::int32_t take_peer(std::string_view& text, char mark) {
  const auto position = text.find_first_of("<>");
  if (position == std::string_view::npos)
    return none;
  if (text[position] != mark)
    fail(error_code::malformed_text,
         "a SEND takes '>' and the stage that receives, a RECV '<' and the "
         "stage that sends");
  const auto peer = parse_number<std::int32_t>(text.substr(position + 1));
  if (!peer || *peer < 0)
    fail(error_code::malformed_text, "'{}' is not followed by a stage", mark);
  text = text.substr(0, position);
  return *peer;
}

// Stage, microbatch, slice and copy of a word are spelled like a compute op's:
// "3SEND_F7.1@1" is read as "3F7.1@1".
plan_op read_word(std::string_view text) {
  const auto overlaps = text.ends_with('+');
  const auto alone = text.ends_with('!');
  if (overlaps || alone)
    text.remove_suffix(1);
  const auto digits =
    std::min(text.find_first_not_of("0123456789"), text.size());
  const auto stage = text.substr(0, digits);
  auto rest = text.substr(digits);
  const auto* as = action_at(rest);
  if (as == nullptr)
    fail(error_code::malformed_text, "it is not an op of a plan");
  if (overlaps && !is_compute(as->kind))
    fail(error_code::malformed_text, "only a compute op overlaps another");
  if (alone && as->group == op_group::holders)
    fail(
      error_code::malformed_text,
      "a {} can't have the compute stream to itself, as another stage of its "
      "rank may take part in it; omit the '!'",
      as->name);
  if (alone && !is_collective(as->kind))
    fail(error_code::malformed_text,
         "'!' puts a collective on the compute stream, where this op is");
  rest.remove_prefix(as->action.size());
  const auto transfers = is_transfer(as->kind);
  const auto peer =
    transfers ? take_peer(rest, as->kind == plan_op_kind::send ? '>' : '<')
              : none;
  // Behind an update within a step stands its last microbatch.
  const auto whole_stage =
    !is_of_microbatch(as->kind) && (rest.empty() || rest.front() == '@');
  const auto place =
    parse_cell(fmt::format("{}F{}{}", stage, whole_stage ? "0" : "", rest),
               spelling::project);
  plan_op op{.kind = as->kind,
             .stream = alone ? stream_kind::compute : as->stream,
             .copy = place.first.copy,
             .overlaps_next = overlaps,
             .slice = place.first.slice,
             .stage = place.first.stage,
             .microbatch = whole_stage ? none : place.first.microbatch,
             .peer = peer};
  if (transfers && peer == none)
    op.peer = chain_peer(op);
  return op;
}

// "0>1 0>2 1>2"; a chain without such a line.
stage_graph read_graph(line_reader& lines, std::int32_t stages) {
  if (!lines.next_is("edges"))
    return stage_graph::chain(stages);
  std::vector<stage_edge> edges;
  for (const auto word : split_words(lines.expect("edges"))) {
    const auto arrow = std::min(word.find('>'), word.size() - 1);
    const auto giver = parse_number<std::int32_t>(word.substr(0, arrow));
    const auto reader = parse_number<std::int32_t>(word.substr(arrow + 1));
    if (!giver || !reader)
      lines.refuse(
        fmt::format("'{}' is not an edge such as 0>2", printable(word)));
    edges.push_back({*giver, *reader});
  }
  try {
    return {stages, std::move(edges)};
  } catch (const error& reason) {
    lines.refuse(reason.what());
  }
}

void read_lane(line_reader& lines, plan& plan) {
  const auto rank = plan.first_op.size();
  plan.first_op.push_back(static_cast<std::uint32_t>(plan.ops.size()));
  for (const auto text :
       split_words(lines.expect(fmt::format("rank {}:", rank))))
    try {
      plan.ops.push_back(read_word(text));
    } catch (const error& reason) {
      lines.refuse(fmt::format("'{}': {}", printable(text), reason.what()));
    }
}

// The index in the rank's lane of its compute op number `compute`; the lane's
// size if it has fewer.
std::size_t lane_index(const plan& plan, std::int32_t rank,
                       std::size_t compute) {
  const auto lane = plan.lane(rank);
  for (std::size_t i = 0; i < lane.size(); ++i)
    if (is_compute(lane[i].kind) && compute-- == 0)
      return i;
  return lane.size();
}

// Bounds the tables of a plan by its text.
void require_ops(const plan& plan, std::size_t least, std::string_view source) {
  if (plan.ops.size() < least)
    fail(error_code::invalid_schedule,
         "{}: has {} ops, but its sizes require at least {}", source,
         plan.ops.size(), least);
}

void check(plan& plan, std::string_view source) {
  require_ops(plan, slot_count(plan), source);
  const auto part = schedule_of(plan);
  const op_locator locate = [&](std::int32_t rank, std::size_t index) {
    return fmt::format("{}, rank {}, op {}", source, rank, index);
  };
  validate(part, source, [&](std::int32_t rank, std::size_t index) {
    return locate(rank, lane_index(plan, rank, index));
  });
  require_ops(plan, edge_slots(plan).size(), source);
  plan.training = is_training(part);
  check_lanes(plan, locate);
}

void read_credits(line_reader& lines, plan& plan) {
  const auto credits = lines.expect_numbers("credits");
  if (credits.size() != plan.channels.size())
    lines.refuse(fmt::format("{} credits for {} channels", credits.size(),
                             plan.channels.size()));
  for (std::size_t i = 0; i < credits.size(); ++i) {
    if (credits[i] < 1)
      lines.refuse("a channel needs at least one credit");
    plan.channels[i].credits = credits[i];
  }
}

}  // namespace

std::string to_text(const plan& plan) {
  auto text =
    fmt::format("{}\nname {}\nmicrobatches {}\nslices {}\nglobal_norm {}\n{}{}",
                heading, printable(plan.schedule_name, std::string::npos),
                plan.microbatches, plan.slices, plan.global_norm ? 1 : 0,
                write_update(plan.update), write_placement(plan.placement))
    + (plan.graph.is_chain() ? "" : "edges " + to_text(plan.graph) + '\n');
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
    text += fmt::format("rank {}:", rank);
    for (const auto& what : plan.lane(rank))
      text += ' ' + word(plan, what);
    text += '\n';
  }
  text += "credits";
  for (const auto& channel : plan.channels)
    text += fmt::format(" {}", channel.credits);
  return text + '\n';
}

plan plan_from_text(std::string_view text, std::string_view source) {
  line_reader lines{text, source};
  if (lines.next_line() != heading)
    lines.refuse(fmt::format("expected '{}'", heading));
  plan result;
  result.schedule_name = schedule_name(lines.expect("name"));
  result.microbatches = lines.expect_number("microbatches", 1, 1 << 28);
  result.slices = lines.expect_number("slices", 1, INT16_MAX);
  result.global_norm = lines.expect_number("global_norm", 0, 1) == 1;
  result.update = read_update(lines, result.microbatches);
  result.placement = read_placement(lines);
  result.graph = read_graph(lines, result.stages());
  for (std::int32_t rank = 0; rank < result.ranks(); ++rank)
    read_lane(lines, result);
  result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
  check(result, source);
  connect(result);
  grant_credits(result, 0);
  read_credits(lines, result);
  if (!lines.done())
    lines.refuse("text after the credits");
  return result;
}

plan plan_from_file(const std::string& path) {
  const auto text = read_file(path);
  if (!is_plan_text(text))
    fail(error_code::malformed_text,
         "{}: not a plan: its first line must be '{}'; --schedule takes a "
         "schedule's CSV",
         printable(path), heading);
  return plan_from_text(text, printable(path));
}

bool is_plan_text(std::string_view text) {
  return text.starts_with("troupe plan");
}

namespace {

using json = nlohmann::ordered_json;

std::string_view name_of(stream_kind stream) {
  constexpr std::array<std::string_view, 8> names{
    "compute",      "data",          "offload",         "reload",
    "send_forward", "send_backward", "receive_forward", "receive_backward"};
  return names[slot(stream)];
}

json op_json(const plan& plan, std::uint32_t index) {
  const auto& what = plan.ops[index];
  json result{{"index", index},
              {"op", to_text(plan, what)},
              {"stream", name_of(what.stream)}};
  if (what.message != none)
    result["message"] = what.message;
  if (what.overlaps_next)
    result["overlaps_next"] = true;
  result["depends_on"] = plan.dependencies_of(what);
  return result;
}

json lane_json(const plan& plan, std::int32_t rank) {
  auto ops = json::array();
  for (const auto i : plan.ops_of(rank))
    ops.push_back(op_json(plan, i));
  return ops;
}

}  // namespace

std::string to_json(const plan& plan) {
  json result{{"schedule", plan.schedule_name},
              {"microbatches", plan.microbatches},
              {"slices", plan.slices},
              {"training", plan.training},
              {"rank_by_stage", plan.placement.rank_by_stage}};
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank)
    result["ranks"].push_back(lane_json(plan, rank));
  result["channels"] = json::array();
  for (const auto& channel : plan.channels)
    result["channels"].push_back({{"from", channel.from_rank},
                                  {"to", channel.to_rank},
                                  {"backward", channel.backward},
                                  {"messages", channel.messages},
                                  {"bound", channel.bound},
                                  {"credits", channel.credits}});
  // A name may contain any bytes.
  return result.dump(1, ' ', false, json::error_handler_t::replace) + '\n';
}

std::uint64_t content_hash(const plan& plan) {
  const auto text = to_text(plan);  // all else follows from it
  fnv_hash hash;
  hash.add(std::string_view(text).substr(text.find("\nmicrobatches ")));
  return hash.value();
}

}  // namespace troupe
