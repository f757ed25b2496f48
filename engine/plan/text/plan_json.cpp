#include "troupe/engine/plan/text/plan_json.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "troupe/engine/plan/text/op_text.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

std::string_view name_of(stream_kind stream) {
  constexpr std::array<std::string_view, 8> names{
    "compute",      "data",          "offload",         "reload",
    "send_forward", "send_backward", "receive_forward", "receive_backward"};
  return names[static_cast<std::size_t>(stream)];
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

json lane_json(const plan& plan, std::size_t rank) {
  auto ops = json::array();
  for (auto i = plan.first_op[rank]; i < plan.first_op[rank + 1]; ++i)
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
  for (std::size_t rank = 0; rank + 1 < plan.first_op.size(); ++rank)
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

}  // namespace troupe
