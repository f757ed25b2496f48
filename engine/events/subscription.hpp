#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>

#include "troupe/base/fields.hpp"
#include "troupe/engine/events/tensor_record.hpp"

namespace troupe {

enum class phase : std::uint8_t { training, validation, inference };
template <>
inline constexpr auto largest_value<phase> = phase::inference;

constexpr const char* to_text(phase phase) {
  constexpr std::array names{"training", "validation", "inference"};
  return names[static_cast<std::size_t>(phase)];
}

/// Where in the job something happened. -1 for parts that don't apply.
struct event_source {
  std::int64_t step = 0;
  troupe::phase phase = phase::training;
  std::int32_t data_rank = 0;
  std::int32_t rank = -1;  // pipeline rank
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;
  std::int16_t slice = 0;
  /// Which monitors were attached when the step began, as a count of changes;
  /// later ones don't see the rest of the step. -1: for all.
  std::int64_t epoch = -1;
};

template <class Archive>
void fields(Archive& archive, event_source& v) {
  TROUPE_EACH_FIELD(v, step, phase, data_rank, rank, stage, microbatch, slice)
  archive.within_job("epoch", v.epoch);
}

/// How the tensors of a step are read; see subscription::watches.
enum class step_reading : std::uint8_t {
  once,     // for all that want them
  watched,  // for those that don't watch; the step is run again on a hit
  again,    // the second run of such a step: for those that watch
};
template <>
inline constexpr auto largest_value<step_reading> = step_reading::again;

/// "step 3 rank 1 stage 2 microbatch 0".
std::string source_text(const event_source& source);

/// A random sample of the rows of each tensor.
struct row_sampling {
  double share = 0;       // of the rows, up to 1; 0: no sample
  std::int64_t seed = 0;  // another one, other rows

  friend auto operator<=>(const row_sampling&, const row_sampling&) = default;
};

/// What a monitor wants to see. Anything that nobody wants is neither computed
/// nor sent. Takes effect at the next step, for whole steps.
struct subscription {
  bool ops = false;       // executed ops of each rank, with times
  bool messages = false;  // received messages, with bytes and waits
  bool memory = false;    // memory of each rank's process
  bool steps = true;      // each step's outcome
  bool warnings = true;   // slow loads and failures
  tensor_kind tensors = tensor_kind::none;
  tensor_needs needs = tensor_needs::statistics;
  /// If given, estimates from a sample (row_estimates.hpp) are enough in place
  /// of statistics, where nobody else wants these.
  row_sampling sample{};
  /// Globs over the names of modules and parameters, joined by commas; for
  /// tensors other than losses.
  std::string names = "*";
  /// Steps from `first` to `last` with (step - first) % every == 0.
  std::int64_t every = 1, first = 0;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  bool validation = false;  // tensors of evaluations as well
  /// Sees tensors of all those steps, even where a budget shows others fewer:
  /// for monitors that would miss what they look for.
  bool exempt = false;
  /// Wants tensors only of steps in which a NaN or an infinity leaves an op
  /// (the outputs of a stage, the gradients of its inputs, a loss), or is in a
  /// parameter's gradient. Such a step is run again before its update, and its
  /// second run shows the tensors; its other events come once. Where steps
  /// can't be run again, it sees the tensors of all.
  bool watches = false;

  bool covers_step(std::int64_t step) const;
  /// Whether any tensors of that step are wanted.
  bool wants_tensors(std::int64_t step, phase phase) const;
  /// Whether it sees the tensors of a step that is read so.
  bool reads(step_reading how) const {
    return how == step_reading::once || watches == (how == step_reading::again);
  }
  bool wants(tensor_kind kind, const std::string& name) const;
  /// Whether an event is for this monitor; possibly only part of a
  /// tensors_event.
  template <class Kind>
  bool covers(const Kind& event) const {
    return event.wanted_by(*this);
  }
  template <class... Kinds>
  bool covers(const std::variant<Kinds...>& event) const {
    return std::visit([this](const auto& held) { return covers(held); }, event);
  }

  friend bool operator==(const subscription&, const subscription&) = default;
};

/// Clients ask for histograms at most, not for the tensors themselves.
template <class Archive>
void fields(Archive& archive, subscription& v) {
  tensor_kinds tensors{v.tensors};
  auto histogram = has(v.needs, tensor_needs::histogram);
  TROUPE_EACH_FIELD(v, ops, messages, memory, steps, warnings, names, every,
                    first, last, validation)
  archive("tensors", tensors);
  archive("sample", v.sample.share);
  archive("sample_seed", v.sample.seed);
  archive.for_clients("histogram", histogram);
  archive.within_job("needs", v.needs);
  archive.within_job("exempt", v.exempt);
  archive.within_job("watches", v.watches);
  if constexpr (Archive::reads) {
    archive.require(v.sample.share >= 0 && v.sample.share <= 1, "sample");
    v.tensors = tensors.set;
    if (histogram)
      v.needs = v.needs | tensor_needs::histogram;
  }
}

/// Throws `invalid_argument` for nonsense: a malformed glob, or an interval of
/// less than one step.
void require_legal(const subscription& wants);

/// `*` matches any characters, `?` one, `[a-c]` one of a set; several globs are
/// joined by commas.
bool matches_glob(const std::string& patterns, const std::string& name);

}  // namespace troupe
