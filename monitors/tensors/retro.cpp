#include "troupe/monitors/tensors/retro.hpp"

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/json.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/tensors/frame.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

json line_of(const tensors_event& op, const tensor_record& record) {
  const auto& place = op.source;
  const auto& s = record.statistics;
  return {{"step", place.step},
          {"data_rank", place.data_rank},
          {"rank", place.rank},
          {"stage", place.stage},
          {"microbatch", place.microbatch},
          {"direction", op.backward ? "backward" : "forward"},
          {"name", record.owner->name},
          {"class", record.owner->class_name},
          {"part", part_text(record)},
          {"count", s.count},
          {"nans", s.nans},
          {"infs", s.infs},
          {"zeros", s.zeros},
          {"max_abs", json_number<json>(s.max_abs)},
          {"min_abs", json_number<json>(s.min_abs)},
          {"mean", json_number<json>(s.mean)},
          {"variance", json_number<json>(s.variance())},
          {"l2", json_number<json>(s.l2())}};
}

struct kept_step {
  std::vector<tensors_event> ops;
  std::optional<double> loss = {};  // none: no items were counted
  std::int64_t bytes = 0;
};

class retro_state {
 public:
  retro_state(retro_options options, sink_pointer sink)
    : options_(std::move(options)), sink_(std::move(sink)) {}

  void see(const tensors_event& op) {
    now_.ops.push_back(op);
    for (const auto& record : op.tensors)
      if (!fired_)
        fired_ = rule_for(op, record);
  }
  void see(const step_event& step) {
    const bool counts = !step.losses.empty() && step.losses[0].counts();
    conclude(step.source,
             counts ? std::optional(step.losses[0].value) : std::nullopt);
  }
  void see(const failure_event& failure) {
    dump(failure.source, "the run failed: " + failure.reason);
  }
  std::int64_t kept_bytes() const { return bytes_; }
  /// The rest of a step was dropped; what had fired in it is kept.
  void see(const dropped_event& dropped) {
    auto source = dropped.source;
    if (!now_.ops.empty())
      source.step = now_.ops.front().source.step;
    if (const auto rule = std::exchange(fired_, std::nullopt))
      dump(source, *rule + " (the rest of that step was dropped)");
    now_ = {};
  }
  void see(const epoch_event&) {
    fired_.reset();
    now_ = {};
  }

 private:
  std::optional<std::string> rule_for(const tensors_event& op,
                                      const tensor_record& record) const {
    const auto& s = record.statistics;
    const auto where = [&] {
      return fmt::format("{} of {}, {}", part_text(record), record.owner->name,
                         place_text(op));
    };
    if (options_.nonfinite && s.nans + s.infs > 0)
      return where() + " is not finite";
    if (options_.max_abs > 0 && s.max_abs > options_.max_abs)
      return fmt::format("{} reaches {:.6g}", where(), s.max_abs);
    return {};
  }

  std::optional<std::string> rule_for_loss(std::optional<double> loss) const {
    double sum = 0, count = 0;
    for (const auto& step : ring_) {
      sum += step.loss.value_or(0);
      count += step.loss ? 1 : 0;
    }
    if (options_.loss_factor <= 0 || !loss || count == 0
        || *loss <= options_.loss_factor * sum / count)
      return {};
    return fmt::format("the loss jumped from {:.6g} to {:.6g}", sum / count,
                       *loss);
  }

  void conclude(const event_source& source, std::optional<double> loss) {
    if (source.phase != phase::training)
      return;
    now_.loss = loss;
    if (!fired_)
      fired_ = rule_for_loss(loss);
    if (fired_)
      dump(source, *fired_);
    fired_.reset();
    for (auto& op : now_.ops)
      for (auto& record : op.tensors)
        record.tensor = at::Tensor{};
    for (const auto& op : now_.ops)
      now_.bytes += static_cast<std::int64_t>(sizeof(op)) + op.held_bytes();
    bytes_ += now_.bytes;
    ring_.push_back(std::move(now_));
    now_ = {};
    if (static_cast<std::int64_t>(ring_.size()) > options_.steps) {
      bytes_ -= ring_.front().bytes;
      ring_.pop_front();
    }
  }

  void dump(const event_source& source, const std::string& rule) {
    if (dumped_++ >= options_.dumps)
      return;
    const auto folder = std::filesystem::path(options_.folder) / "retro";
    require_writable_folder(folder.string());
    const auto stem = (folder / fmt::format("step{}", source.step)).string();
    write_file_atomically(stem + ".jsonl", lines());
    if (options_.tensors)
      write_tensors(stem + ".safetensors");
    sink_->write(
      alert{source, "retro",
            fmt::format("step {}: {}; the last {} steps are in {}", source.step,
                        rule, ring_.size() + 1, stem + ".jsonl")});
  }

  std::string lines() const {
    std::string text;
    const auto append = [&](const kept_step& step) {
      for (const auto& op : step.ops)
        for (const auto& record : op.tensors)
          text += line_of(op, record).dump() + "\n";
    };
    for (const auto& step : ring_)
      append(step);
    append(now_);
    return text;
  }

  /// Under "name/part@microbatch", made unique by a number where needed.
  void write_tensors(const std::string& path) const {
    parameter_list all;
    std::map<std::string, int> seen;
    for (const auto& op : now_.ops)
      for (const auto& record : op.tensors) {
        if (!record.tensor.defined())
          continue;
        auto name = fmt::format("{}/{}", record.owner->name, part_text(record));
        if (op.source.microbatch >= 0)
          name += fmt::format("@{}", op.source.microbatch);
        if (op.source.data_rank > 0)
          name += fmt::format("/replica{}", op.source.data_rank);
        if (const auto again = seen[name]++; again > 0)
          name += fmt::format("#{}", again);
        all.emplace_back(name, record.tensor.contiguous());
      }
    write_safetensors(path, all);
  }

  retro_options options_;
  required_sink sink_;
  kept_step now_;
  std::deque<kept_step> ring_;
  std::optional<std::string> fired_;
  std::int64_t bytes_ = 0;  // of all that is in it
  std::int64_t dumped_ = 0;
};

}  // namespace

monitor retro_monitor(const retro_options& options, sink_pointer sink) {
  if (options.steps < 1 || options.dumps < 1)
    throw error(error_code::invalid_argument,
                "retro: use 1 or more steps and 1 or more dumps");
  if (!(options.max_abs >= 0 && options.loss_factor >= 0))
    fail(error_code::invalid_argument,
         "retro: max_abs is {} and loss_factor {}; use 0 (off) or more",
         options.max_abs, options.loss_factor);
  auto result = monitor_of(
    "retro", std::make_shared<retro_state>(options, std::move(sink)));
  result.wants.tensors =
    tensor_kind::activation | tensor_kind::activation_gradient
    | tensor_kind::parameter | tensor_kind::gradient | tensor_kind::loss;
  result.wants.needs = options.tensors
                         ? tensor_needs::statistics | tensor_needs::handle
                         : tensor_needs::statistics;
  result.wants.names = options.match;
  result.wants.exempt = true;
  return result;
}

}  // namespace troupe
