#include "troupe/engine/plan/plan_json.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "troupe/engine/plan/op_text.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

std::string_view name_of(stream_kind stream) {
  constexpr std::array<std::string_view, 6> names{
    "compute",         "data",
    "send_forward",    "send_backward",
    "receive_forward", "receive_backward"};
  return names[static_cast<std::size_t>(stream)];
}

json op_json(const plan& of, std::uint32_t index) {
  const auto& what = of.ops[index];
  json result{{"index", index},
              {"op", to_text(of, what)},
              {"stream", name_of(what.stream)}};
  if (what.message != none)
    result["message"] = what.message;
  if (what.overlaps_next)
    result["overlaps_next"] = true;
  result["depends_on"] = of.dependencies_of(what);
  return result;
}

json lane_json(const plan& of, std::size_t rank) {
  auto ops = json::array();
  for (auto i = of.first_op[rank]; i < of.first_op[rank + 1]; ++i)
    ops.push_back(op_json(of, i));
  return ops;
}

}  // namespace

std::string to_json(const plan& of) {
  json result{{"schedule", of.schedule_name},
              {"microbatches", of.microbatches},
              {"slices", of.slices},
              {"training", of.training},
              {"rank_by_stage", of.placement.rank_by_stage}};
  for (std::size_t rank = 0; rank + 1 < of.first_op.size(); ++rank)
    result["ranks"].push_back(lane_json(of, rank));
  result["channels"] = json::array();
  for (const auto& to : of.channels)
    result["channels"].push_back({{"from", to.from_rank},
                                  {"to", to.to_rank},
                                  {"backward", to.backward},
                                  {"messages", to.messages},
                                  {"bound", to.bound},
                                  {"credits", to.credits}});
  // A name may contain any bytes.
  return result.dump(1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace troupe
