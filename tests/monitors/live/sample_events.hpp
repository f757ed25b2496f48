#pragma once

#include <bit>
#include <random>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe::testing {

inline tensor_record sample_record(double value) {
  tensor_record made;
  made.kind = tensor_kind::activation;
  made.owner = std::make_shared<const tensor_owner>(
    tensor_owner{"blocks.0.mlp", "linear"});
  made.index = 1;
  made.inner = 0;
  made.part = "weight";
  made.call = 3;
  made.dimensions = 2;
  made.dtype = at::ScalarType::BFloat16;
  made.statistics.count = 12;
  made.statistics.max_abs = value;
  made.statistics.mean = value / 3;
  log2_histogram bins{};
  bins[150] = 12;
  bins[278] = 1;
  made.statistics.histogram = bins;
  return made;
}

/// One of each kind, with any bits in its numbers.
inline std::vector<event> sample_events(std::mt19937_64& random) {
  const auto any = [&] { return std::bit_cast<double>(random()); };
  const auto whole = [&] { return static_cast<std::int64_t>(random()); };
  const event_source source{whole(), phase::validation, 1, 2, 3, 4, 5};
  step_event step;
  step.source = source;
  step.losses = {{"loss", any(), any()}};
  step.metrics = {{"accuracy \"x\"\n\xc3\xa9", any(), 1}};
  step.gradient_norm = any();
  step.learning_rate = any();
  step.updated = random() % 2 == 0;
  step.tokens = whole();
  step.begin = whole();
  step.observed = random() % 2 == 0;
  step.observe_seconds = any();
  return {
    ops_event{source, {{1, 2, whole(), whole(), whole()}, {3, 4, 5, 6, 7}}},
    messages_event{source, {{1, 2, whole(), whole(), whole(), whole(), 3}}},
    memory_event{source, whole(), whole(), whole()},
    tensors_event{source, true, 8, {sample_record(any()), {}}},
    step,
    slow_load_event{source, any()},
    failure_event{source, "0F1", "a reason"},
    dropped_event{source, whole()}};
}

}  // namespace troupe::testing
