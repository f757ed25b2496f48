#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// What a monitor wants to see. Whatever nobody asks for is neither computed
/// nor sent. It holds from the next step on, for whole steps.
struct subscription {
  bool ops = false;       // what each rank executed, with times
  bool messages = false;  // what each rank received, with bytes and waits
  bool memory = false;    // of each rank's process
  bool steps = true;      // each step's outcome
  bool warnings = true;   // slow loads and failures
  tensor_kind tensors = tensor_kind::none;
  tensor_needs needs = tensor_needs::statistics;
  /// Globs over the names of modules and parameters, joined by commas; for
  /// tensors other than losses.
  std::string names = "*";
  /// Steps from `first` to `last` with (step - first) % every == 0.
  std::int64_t every = 1, first = 0;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  bool validation = false;  // tensors of evaluations as well
  /// Tensors of all those steps, also where a budget lets others see fewer: for
  /// what would miss what it looks for.
  bool exempt = false;

  bool covers_step(std::int64_t step) const;
  /// Whether tensors of that step are wanted at all.
  bool wants_tensors(std::int64_t step, phase phase) const;
  bool wants(tensor_kind kind, const std::string& name) const;
  /// Whether an event is for this monitor; of a tensors_event a part may be.
  bool covers(const event& event) const;

  friend bool operator==(const subscription&, const subscription&) = default;
};

/// Throws `invalid_argument` for what could never be meant: a malformed glob,
/// or fewer than one step between two.
void require_legal(const subscription& wants);

/// `*` stands for any characters, `?` for one, `[a-c]` for
/// one of a set; several, joined by commas.
bool matches_glob(const std::string& patterns, const std::string& name);

}  // namespace troupe
