#include "noted_ops.hpp"

#include <ATen/ops/mul.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "troupe/engine/plan/compile/overlapped_pairs.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe::testing {

namespace {

noted_point point_now() {
  if (!active_watch())
    return {};
  const auto clock = active_watch()->now(current_stream);
  return {current_stream, clock.at(current_stream), clock};
}

/// What one layer has noted, by microbatch.
struct layer_notes {
  std::int32_t stage = 0;
  std::vector<noted_point> forwards, backwards;
};
/// The notes of all layers, in the order in which the layers were made; copies
/// of a stage in the order of their numbers.
using notes_of_layers =
  std::shared_ptr<std::vector<std::shared_ptr<layer_notes>>>;

/// Passes its input on, and notes the point.
struct noting_layer final : stage_module {
  noting_layer(std::int32_t stage, const device_pointer& device, double wait,
               const notes_of_layers& all)
    : on(device), seconds(wait), notes(std::make_shared<layer_notes>()) {
    notes->stage = stage;
    all->push_back(notes);
  }
  tensor_list forward(const tensor_list& inputs) override {
    auto output = inputs[0] * 1;
    note(notes->forwards);
    if (output.requires_grad())
      output.register_hook([this](const at::Tensor& gradient) {
        auto same = gradient * 1;
        note(notes->backwards);
        return same;
      });
    return {output};
  }
  void note(std::vector<noted_point>& to) const {
    to.push_back(point_now());
    if (seconds > 0)
      on->kernels().delay(seconds);
  }
  device_pointer on;
  double seconds;
  std::shared_ptr<layer_notes> notes;
};

/// A model in which each stage ends with a noting layer.
model noting_model(const small_case& what, stage_split& ranges,
                   const device_pointer& on, double seconds,
                   const notes_of_layers& all) {
  auto layers = model_for(what);
  for (auto s = std::ssize(ranges) - 1; s >= 0; --s) {
    auto& range = ranges[static_cast<std::size_t>(s)];
    const auto stage = static_cast<std::int32_t>(s);
    layers.insert(layers.begin() + range.last,
                  {"note" + std::to_string(s), [=] {
                     return std::make_shared<noting_layer>(stage, on, seconds,
                                                           all);
                   }});
    range.first += stage;
    range.last += stage + 1;
  }
  return layers;
}

/// The notes of the layers that have run, by stage instance.
std::map<stage_instance, layer_notes> notes_of(const notes_of_layers& all) {
  std::map<stage_instance, layer_notes> notes;
  std::map<std::int32_t, std::int8_t> copies;
  for (const auto& each : *all)
    if (!each->forwards.empty())
      notes.emplace(stage_instance{each->stage, copies[each->stage]++}, *each);
  return notes;
}

std::string text_of(const noted_step& step, std::uint32_t a, std::uint32_t b) {
  return to_text(*step.of, step.of->ops[a]) + " "
         + to_text(*step.of, step.of->ops[b]);
}

bool is_before(const noted_point& a, const noted_point& b) {
  const auto at = b.clock.find(a.stream);
  return at != b.clock.end() && at->second >= a.tick;
}

}  // namespace

noted_step note_step(const small_case& what, const device_pointer& on,
                     const overlap_options& overlap, double seconds) {
  auto options = options_for(what);
  options.devices = {on};
  options.overlap = overlap;
  options.split = split(model_for(what), options.schedule.stages());
  const auto all = std::make_shared<notes_of_layers::element_type>();
  const auto layers = noting_model(what, options.split, on, seconds, all);
  trainer run(layers, options);
  run.step(small_text());
  for (const auto& each : *all)
    *each = {.stage = each->stage, .forwards = {}, .backwards = {}};
  auto report = run.step(small_text());
  const auto notes = notes_of(all);
  noted_step step{run.shared_plan(), {}, std::move(report.ops)};
  std::map<std::pair<stage_instance, bool>, std::size_t> next;
  for (const auto& rank : step.ops) {
    auto& noted = step.ranks.emplace_back();
    for (const auto& record : rank.ops) {
      const auto& op = step.of->ops[record.op];
      const bool forward = op.kind == plan_op_kind::forward;
      if (!forward && !takes_gradient(op.kind))
        continue;
      const auto& of = notes.at(instance_of(op));
      const auto& points = forward ? of.forwards : of.backwards;
      noted.push_back(
        {record.op, points.at(next[{instance_of(op), forward}]++)});
    }
  }
  for (const auto& [instance, of] : notes) {
    CHECK(of.forwards.size() == next[{instance, true}]);
    CHECK(of.backwards.size() == next[{instance, false}]);
  }
  return step;
}

std::vector<std::string> unordered_ops(const noted_step& step) {
  std::vector<std::string> unordered;
  for (const auto& rank : step.ranks)
    for (std::size_t a = 0; a < rank.size(); ++a)
      for (auto b = a + 1; b < rank.size(); ++b)
        if (!is_before(rank[a].at, rank[b].at)) {
          CHECK_FALSE(is_before(rank[b].at, rank[a].at));
          unordered.push_back(text_of(step, rank[a].op, rank[b].op));
        }
  return unordered;
}

std::vector<std::string> pairs_of(const noted_step& step) {
  std::vector<std::string> pairs;
  for (const auto& rank : step.ranks)
    for (const auto& each : rank)
      if (const auto partner = partner_of(*step.of, each.op))
        pairs.push_back(text_of(step, each.op, *partner));
  return pairs;
}

int pairs_at_once(const noted_step& step) {
  std::map<std::uint32_t, op_record> records;
  for (const auto& rank : step.ops)
    for (const auto& op : rank.ops)
      records[op.op] = op;
  return static_cast<int>(std::ranges::count_if(records, [&](const auto& each) {
    const auto& [op, first] = each;
    const auto partner = partner_of(*step.of, op);
    return partner && first.begin < records.at(*partner).end
           && records.at(*partner).begin < first.end;
  }));
}

}  // namespace troupe::testing
