#include "troupe/actors/step/reducer_core.hpp"

#include <ATen/core/grad_mode.h>

#include "troupe/actors/recording/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/mean_gradient.hpp"

namespace troupe {

namespace {

void give(const at::Tensor& mean, at::Tensor parameter) {
  if (!mean.defined() || parameter.grad().is_same(mean))
    return;
  if (parameter.grad().defined())
    parameter.mutable_grad().copy_(mean);
  else
    parameter.mutable_grad() = mean.to(parameter.device(), false, true);
}

}  // namespace

bool reducer_core::on(reduce_gradients request) {
  auto& place = waiting_.at(static_cast<std::size_t>(request.data_rank));
  if (place)
    fail(error_code::internal,
         "replica {} asked twice for the reduction of stage {}",
         request.data_rank, request.stage);
  place = std::move(request);
  if (++arrived_ < waiting_.size())
    return false;
  if (waiting_[0]->recorded)
    record();
  else if (waiting_[0]->device)
    average_on_device();
  else
    average();
  for (auto& replica : waiting_)
    replica.reset();
  arrived_ = 0;
  return true;
}

void reducer_core::record() {
  const auto recorded = waiting_[0]->recorded;
  const auto op = fmt::format("reduce {}", waiting_[0]->stage);
  if (!recorded->attempt(op, [this] { average_on_device(); }))
    ready_ = nullptr;
}

/// On a stream of the reducer's own, after all that made the gradients.
void reducer_core::average_on_device() {
  if (!stream_)
    stream_ = waiting_[0]->device->make_stream(stream_priority::high);
  const auto scope = stream_->enter();
  for (const auto& replica : waiting_)
    for (const auto& parameter : replica->parameters)
      take_over(*stream_, {parameter.grad()}, replica->ready);
  average();
  ready_ = stream_->record();
}

void reducer_core::average() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < waiting_[0]->parameters.size(); ++i) {
    tensor_list gradients;
    for (const auto& replica : waiting_)
      gradients.push_back(replica->parameters[i].grad());
    const auto mean = mean_gradient(gradients);
    for (const auto& replica : waiting_)
      give(mean, replica->parameters[i]);
  }
}

}  // namespace troupe
