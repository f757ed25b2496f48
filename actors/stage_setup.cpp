#include "troupe/actors/stage_setup.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

namespace {

bool holds_what_it_announces(const stage_tensors& message) {
  const auto& announced = message.header.tensors;
  if (message.header.by_device)
    return message.tensors.empty();
  return std::ranges::equal(
    announced, message.tensors, [](const auto& a, const at::Tensor& b) {
      return b.defined() ? a.first == b.scalar_type() && b.sizes() == a.second
                         : a.first == at::ScalarType::Undefined;
    });
}

/// Whether the plan's message of that number is this one.
bool is_planned(const envelope& e, const stage_setup& by, const plan& plan) {
  if (e.message == none)
    return plan.placement.rank_of(e.from_stage) == by.rank;
  if (e.message < 0
      || static_cast<std::size_t>(e.message) >= plan.messages.size())
    return false;
  const auto& message = plan.messages[static_cast<std::size_t>(e.message)];
  const auto& consumer = plan.ops[message.consumer];
  const auto& channel =
    plan.channels[static_cast<std::size_t>(message.channel)];
  return consumer.stage == by.stage && consumer.microbatch == e.key.microbatch
         && consumer.slice == e.key.slice && channel.backward == e.backward;
}

}  // namespace

std::string summary(const envelope& e) {
  return fmt::format("{} of microbatch {} slice {} from stage {} to stage {}",
                     e.backward ? "gradient" : "activation", e.key.microbatch,
                     e.key.slice, e.from_stage, e.to_stage);
}

std::uint32_t last_op_of(const plan& plan, std::int32_t stage) {
  const auto rank = static_cast<std::size_t>(plan.placement.rank_of(stage));
  auto at = plan.first_op[rank + 1];
  while (at-- > plan.first_op[rank])
    if (plan.ops[at].stage == stage
        && plan.ops[at].kind != plan_op_kind::receive)
      return at;
  fail(error_code::internal, "stage {} has no ops in the plan", stage);
}

stage_tensors pack(const stage_setup& by, const step_context& step,
                   tensor_list tensors, microbatch_key key, bool backward,
                   std::int32_t message) {
  stage_tensors packed;
  auto& e = packed.header;
  e.run = by.run;
  e.serial = step.serial;
  e.data_rank = by.data_rank;
  e.from_stage = by.stage;
  e.to_stage = by.stage + (backward ? -1 : 1);
  e.key = key;
  e.backward = backward;
  e.message = message;
  for (const auto& tensor : tensors)
    e.tensors.emplace_back(
      tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined,
      tensor.defined() ? tensor.sizes().vec() : std::vector<std::int64_t>{});
  packed.tensors = std::move(tensors);
  e.sent = now_ns();
  return packed;
}

void require_expected(const stage_tensors& message, const stage_setup& by,
                      const step_context* step) {
  const auto& e = message.header;
  const auto from = by.stage + (e.backward ? 1 : -1);
  if (e.run != by.run || e.data_rank != by.data_rank || e.to_stage != by.stage
      || e.from_stage != from)
    fail(error_code::mismatch,
         "stage {} of replica {} expected a tensor from stage {} of its own "
         "run and replica and got the {} of replica {}",
         by.stage, by.data_rank, from, summary(e), e.data_rank);
  if (e.by_device && !by.links)
    fail(error_code::mismatch,
         "the {} comes from a device, and stage {} has none", summary(e),
         by.stage);
  if (step && e.serial == step->serial && !is_planned(e, by, *step->plan))
    fail(error_code::mismatch, "the plan has no message {} with the {}",
         e.message, summary(e));
  if (!holds_what_it_announces(message))
    fail(error_code::mismatch,
         "the {} announces other shapes or dtypes than its tensors have: {}",
         summary(e), describe(message.tensors));
}

}  // namespace troupe
