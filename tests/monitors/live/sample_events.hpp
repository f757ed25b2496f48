#pragma once

#include <bit>
#include <random>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe::testing {

inline tensor_record sample_record(double value) {
  tensor_record record;
  record.kind = tensor_kind::activation;
  record.owner = std::make_shared<const tensor_owner>(
    tensor_owner{"blocks.0.mlp", "linear"});
  record.index = 1;
  record.inner = 0;
  record.part = "weight";
  record.call = 3;
  record.dimensions = 2;
  record.dtype = at::ScalarType::BFloat16;
  record.statistics.count = 12;
  record.statistics.max_abs = value;
  record.statistics.mean = value / 3;
  log2_histogram bins{};
  bins[150] = 12;
  bins[278] = 1;
  record.statistics.histogram = bins;
  return record;
}

/// One event of each kind, with arbitrary bits in its numbers.
inline std::vector<event> sample_events(std::mt19937_64& random) {
  const auto any = [&] { return std::bit_cast<double>(random()); };
  const auto whole = [&] { return static_cast<std::int64_t>(random()); };
  const event_source source{whole(), phase::validation, 1, 2, 3, 4, 5};
  tensor_record estimated;
  estimated.sample = row_estimates{whole(), whole(), any(), {any()}, {any()}};
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
    tensors_event{source, true, 8, {sample_record(any()), {}, estimated}},
    step,
    slow_load_event{source, any()},
    failure_event{source, "0F1", "a reason"},
    dropped_event{source, whole()}};
}

}  // namespace troupe::testing
