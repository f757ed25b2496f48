#include "troupe/engine/plan/cost/peak_bytes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

constexpr entry_reader size_reader{
  "sizes",
  "kept, deferred, activation, gradient, parameters, version, whole and "
  "whole_gradient"};

/// A figure that is missing for a row and for all stages equals another one.
struct size_field {
  std::string_view key;
  double stage_sizes::*member;
  double stage_sizes::*otherwise = nullptr;
};

constexpr size_field size_fields[]{
  {"kept", &stage_sizes::kept},
  {"deferred", &stage_sizes::deferred, &stage_sizes::kept},
  {"activation", &stage_sizes::activation},
  {"gradient", &stage_sizes::gradient, &stage_sizes::activation},
  {"parameters", &stage_sizes::parameters},
  {"version", &stage_sizes::version, &stage_sizes::parameters},
  {"whole", &stage_sizes::whole},
  {"whole_gradient", &stage_sizes::whole_gradient, &stage_sizes::whole}};

double divisor_of(double stage_sizes::*member, const division& by) {
  if (member == &stage_sizes::kept || member == &stage_sizes::deferred)
    return by.stages * by.slices;
  const bool is_message =
    member == &stage_sizes::activation || member == &stage_sizes::gradient;
  return is_message ? by.slices : by.stages;
}

/// What ranks come to hold, and release, at which times.
class held_bytes {
 public:
  held_bytes(const plan& plan, const simulation& times,
             const value_sizes& sizes)
    : plan_{plan},
      times_{times},
      sizes_{sizes},
      changes_(slot(plan.ranks())),
      host_changes_(changes_.size()),
      readers_(slot_count(plan) * passes, absent) {
    for (std::uint32_t i = 0; i < plan.ops.size(); ++i)
      if (is_compute(plan.ops[i].kind) || is_copy(plan.ops[i].kind))
        reader(plan.ops[i], pass_of(plan.ops[i].kind)) = i;
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i)
      add_op(i);
    for (const auto& each : plan_.messages)
      add_message(each);
    add_versions();
  }

  std::vector<double> host_peaks() const {
    std::vector<double> all;
    for (const auto& each : host_changes_)
      all.push_back(peak_of(each));
    return all;
  }

  std::vector<double> peaks() const {
    std::vector<double> all;
    for (std::int32_t rank = 0; rank < plan_.ranks(); ++rank)
      all.push_back(parameters_of(rank) + peak_of(changes_[slot(rank)]));
    return all;
  }

  double joint_peak() const {
    change_list all;
    double parameters = 0;
    for (std::int32_t rank = 0; rank < plan_.ranks(); ++rank) {
      parameters += parameters_of(rank);
      const auto& own = changes_[slot(rank)];
      all.insert(all.end(), own.begin(), own.end());
    }
    return parameters + peak_of(std::move(all));
  }

 private:
  using change_list = std::vector<std::pair<double, double>>;  // time, bytes

  static void hold(std::vector<change_list>& where, std::int32_t rank,
                   double begin, double end, double bytes) {
    auto& changes = where[slot(rank)];
    changes.emplace_back(begin, bytes);
    changes.emplace_back(end, -bytes);
  }

  static constexpr auto absent = static_cast<std::uint32_t>(none);

  enum class pass : std::uint8_t {
    forward,
    backward,
    weights,
    offload,
    reload
  };
  static constexpr std::size_t passes = 5;
  static pass pass_of(plan_op_kind kind) {
    return kind == plan_op_kind::forward   ? pass::forward
           : kind == plan_op_kind::offload ? pass::offload
           : kind == plan_op_kind::reload  ? pass::reload
           : takes_gradient(kind)          ? pass::backward
                                           : pass::weights;
  }
  std::uint32_t& reader(const plan_op& op, pass which) {
    return readers_[slot(which) * slot_count(plan_) + op_slot(plan_, op)];
  }

  /// The op of its rank that frees what a gather makes whole; the gather
  /// itself if there is none.
  std::uint32_t release_of(std::uint32_t gather) const {
    const auto rank = slot(plan_.rank_of(gather));
    const auto& gather_op = plan_.ops[gather];
    for (auto i = gather + 1; i < plan_.first_op[rank + 1]; ++i)
      if (const auto& op = plan_.ops[i];
          op.kind == plan_op_kind::release
          && instance_of(op) == instance_of(gather_op))
        return i;
    return gather;
  }

  void hold(std::int32_t rank, double begin, double end, double bytes) {
    hold(changes_, rank, begin, end, bytes);
  }

  /// A forward's context occupies the device until its offload has ended, and
  /// from its reload on.
  void hold_context(std::int32_t rank, std::uint32_t producer) {
    const auto& op = plan_.ops[producer];
    const auto offload = reader(op, pass::offload);
    const bool leaves = op.kind == plan_op_kind::forward && offload != absent;
    hold(rank, times_.start[producer],
         times_.end[leaves ? offload : reader(op, pass::backward)],
         sizes_.row(op.stage).kept);
  }

  /// From the first op of a rank that adds to the gradient of a stage.
  void hold_whole_gradient(std::int32_t rank, std::uint32_t i) {
    const auto& op = plan_.ops[i];
    const std::pair key{op.stage, op.copy};
    if (op.kind == plan_op_kind::backward
        || op.kind == plan_op_kind::weight_backward)
      first_gradient_.try_emplace(key, times_.start[i]);
    else if (const auto first = first_gradient_.find(key);
             op.kind == plan_op_kind::reduce && first != first_gradient_.end())
      hold(rank, first->second, times_.end[i],
           sizes_.row(op.stage).whole_gradient);
  }

  /// The bytes of an edge, by the sizes of the stage whose outputs it carries.
  double bytes_of(bool gradient, std::int32_t sender,
                  std::int32_t receiver) const {
    return gradient ? sizes_.row(receiver).gradient
                    : sizes_.row(sender).activation;
  }

  /// Until when the op that reads a value holds it by itself.
  double read_by(std::uint32_t reading) const {
    return plan_.ops[reading].kind == plan_op_kind::forward
             ? times_.start[reading]
             : times_.end[reading];
  }

  void add_op(std::uint32_t i) {
    const auto& op = plan_.ops[i];
    const auto rank = plan_.placement.rank_of(op.stage, op.copy);
    hold_whole_gradient(rank, i);
    if (op.kind == plan_op_kind::forward && !plan_.training)
      hold(rank, times_.start[i], times_.end[i], sizes_.row(op.stage).kept);
    for_each_output(plan_, op, [&](const value& output) {
      if (output.kind == value_kind::context)
        hold_context(rank, i);
      else if (output.kind == value_kind::hosted)
        hold(host_changes_, rank, times_.start[i],
             times_.end[reader(op, pass::reload)], sizes_.row(op.stage).kept);
      else if (output.kind == value_kind::deferred)
        hold(rank, times_.end[i], times_.end[reader(op, pass::weights)],
             sizes_.row(op.stage).deferred);
      else if (output.kind == value_kind::parameters)
        hold(rank, times_.start[i], times_.end[release_of(i)],
             sizes_.row(op.stage).whole);
      // Weight gradients are counted with the parameters.
      if (is_own(output.kind) || output.kind == value_kind::parameters
          || output.kind == value_kind::weight_gradient
          || crosses(plan_.placement, output.from, output.to, output.copy))
        return;
      const bool gradient = output.kind == value_kind::gradient;
      auto reading = op;
      reading.stage = output.to;
      hold(rank, times_.start[i],
           read_by(reader(reading, gradient ? pass::backward : pass::forward)),
           bytes_of(gradient, output.from, output.to));
    });
  }

  void add_message(const message& each) {
    const auto& send = plan_.ops[each.send];
    const auto moved = moved_by(send);
    const auto bytes = bytes_of(is_gradient(send.stream), moved.from, moved.to);
    const auto& channel = plan_.channels[slot(each.channel)];
    const auto arrival = times_.end[each.receive];
    hold(channel.from_rank, times_.start[each.producer], arrival, bytes);
    hold(channel.to_rank, arrival, read_by(each.consumer), bytes);
  }

  /// An update makes new parameters; those before it live on for the backwards
  /// that read them again.
  void add_versions() {
    if (plan_.update.every == 0)
      return;
    std::map<std::pair<std::int32_t, std::int32_t>, double> last_read;
    for (const auto& op : plan_.ops)
      if (op.kind == plan_op_kind::forward) {
        auto& last = last_read[{op.stage, version_of(plan_, op)}];
        last = std::max(last, times_.end[reader(op, pass::backward)]);
      }
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i)
      if (const auto& op = plan_.ops[i]; op.kind == plan_op_kind::update) {
        const auto last =
          last_read[{op.stage, update_number(plan_, op.microbatch)}];
        hold(plan_.placement.rank_of(op.stage, op.copy), times_.start[i],
             std::max(last, times_.end[i]), sizes_.row(op.stage).version);
      }
  }

  double parameters_of(std::int32_t rank) const {
    double bytes = 0;
    for (std::int32_t copy = 0; copy < plan_.placement.copies(); ++copy)
      for (std::int32_t stage = 0; stage < plan_.stages(); ++stage)
        if (plan_.placement.rank_of(stage, copy) == rank)
          bytes += sizes_.row(stage).parameters;
    return bytes;
  }

  /// At one time, what is released makes room for what comes.
  static double peak_of(change_list changes) {
    std::ranges::sort(changes);
    double held = 0, most = 0;
    for (const auto& [time, bytes] : changes)
      most = std::max(most, held += bytes);
    return most;
  }

  const plan& plan_;
  const simulation& times_;
  const value_sizes& sizes_;
  std::vector<change_list> changes_;  // by rank
  std::vector<change_list> host_changes_;
  std::vector<std::uint32_t> readers_;  // by pass and op_slot
  std::map<std::pair<std::int32_t, std::int8_t>, double> first_gradient_;
};

}  // namespace

stage_sizes divided(stage_sizes sizes, const division& by) {
  for (const auto& field : size_fields)
    sizes.*field.member /= divisor_of(field.member, by);
  return sizes;
}

value_sizes parse_sizes(std::string_view text, const division& by) {
  const auto entries = size_reader.read(text);
  value_sizes sizes;
  const auto set = [&](stage_sizes& row, const keyed_number& entry) {
    const auto* field =
      std::ranges::find(size_fields, entry.key, &size_field::key);
    if (field == std::end(size_fields))
      size_reader.refuse(entry.text, "the key is unknown");
    row.*field->member =
      entry.value / (entry.stage ? 1 : divisor_of(field->member, by));
  };
  std::set<std::pair<std::string_view, std::optional<std::int32_t>>>
    present_keys;
  for (const auto& entry : entries)
    present_keys.emplace(entry.key, entry.stage);
  const auto complete = [&](stage_sizes& row, std::optional<std::int32_t> of) {
    for (const auto& [key, member, otherwise] : size_fields)
      if (otherwise && !present_keys.contains({key, std::nullopt})
          && !present_keys.contains({key, of}))
        row.*member = row.*otherwise;
  };
  // A stage's row starts from the figures for all, which may come later.
  for (const auto& entry : entries)
    if (!entry.stage)
      set(sizes.usual, entry);
  complete(sizes.usual, std::nullopt);
  for (const auto& entry : entries)
    if (entry.stage)
      set(sizes.of_stage.try_emplace(*entry.stage, sizes.usual).first->second,
          entry);
  for (auto& [stage, row] : sizes.of_stage)
    complete(row, stage);
  return sizes;
}

value_sizes load_sizes(const std::string& path_or_text, const division& by) {
  return load_entries(path_or_text, "sizes", [&](const std::string& text) {
    return parse_sizes(text, by);
  });
}

std::vector<double> peak_bytes(const plan& plan, const simulation& times,
                               const value_sizes& sizes) {
  return held_bytes{plan, times, sizes}.peaks();
}

std::vector<double> host_peak_bytes(const plan& plan, const simulation& times,
                                    const value_sizes& sizes) {
  return held_bytes{plan, times, sizes}.host_peaks();
}

double joint_peak_bytes(const plan& plan, const simulation& times,
                        const value_sizes& sizes) {
  return held_bytes{plan, times, sizes}.joint_peak();
}

}  // namespace troupe
