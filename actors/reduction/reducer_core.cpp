#include "troupe/actors/reduction/reducer_core.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/actors/recording/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/rank_device.hpp"

namespace troupe {

reducer_core::reducer_core(std::unique_ptr<collectives> calls,
                           std::size_t members)
  : calls_(std::move(calls)), members_(members) {}

std::vector<gradients_reduced> reducer_core::on(reduce_gradients request) {
  const auto member_of = [](const reduce_gradients& each) {
    return std::pair(each.data_rank, each.owner.copy);
  };
  const auto place =
    std::ranges::lower_bound(waiting_, member_of(request), {}, member_of);
  if (place != waiting_.end() && member_of(*place) == member_of(request))
    fail(error_code::internal,
         "replica {} asked twice for the reduction of stage {}",
         request.data_rank, request.owner.stage);
  waiting_.insert(place, std::move(request));
  if (waiting_.size() < members_)
    return {};
  const auto& first = waiting_.front();
  bool done = true;
  if (!launch(
        first.recorded,
        [&] { return fmt::format("reduce {}", first.owner.stage); },
        [&] { done = reduce(); }))
    gradients_.assign(waiting_.size(), {});
  return done ? take_answers() : std::vector<gradients_reduced>{};
}

std::vector<gradients_reduced> reducer_core::on(reduce_part part) {
  return calls_->on(std::move(part)) ? take_answers()
                                     : std::vector<gradients_reduced>{};
}

bool reducer_core::reduce() {
  const at::NoGradGuard no_grad;
  auto* stream = calls_->stream(waiting_.front());
  const auto scope = stream ? stream->enter() : nullptr;
  gradients_.clear();
  has_.clear();
  for (auto& member : waiting_) {
    if (stream)
      take_over(*stream, member.gradients, member.ready);
    complete(member, stream);
    gradients_.push_back(std::move(member.gradients));
  }
  const auto& first = waiting_.front();
  const bool done =
    calls_->all_reduce(first.serial, first.owner.stage, gradients_);
  ready_ = stream ? stream->record() : nullptr;
  return done;
}

/// Zeros in place of missing gradients; for other processes also a row that
/// tells which those are.
void reducer_core::complete(reduce_gradients& member, device_stream* stream) {
  auto& gradients = member.gradients;
  auto& has = has_.emplace_back();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    has.push_back(gradients[i].defined());
    if (!has.back())
      gradients[i] = at::zeros_like(member.parameters.at(i));
  }
  if (calls_->spans_processes() && !gradients.empty())
    gradients.push_back(presence_row(has, gradients.front(), stream));
}

/// Copied to a device only when it changes.
at::Tensor reducer_core::presence_row(const presence& has,
                                      const at::Tensor& like,
                                      device_stream* stream) {
  if (!row_.defined() || has != row_of_) {
    const std::vector<float> values(has.begin(), has.end());
    const auto row = at::tensor(values).to(like.scalar_type());
    row_ = stream ? to_device(row, *stream) : row;
    row_of_ = has;
  }
  return row_.clone();
}

std::vector<gradients_reduced> reducer_core::take_answers() {
  std::vector<gradients_reduced> answers;
  for (std::size_t r = 0; r < waiting_.size(); ++r) {
    auto& request = waiting_[r];
    auto& gradients = gradients_[r];
    if (!gradients.empty())
      remove_absent(r, gradients);
    answers.push_back({request.serial, request.owner, request.data_rank,
                       std::move(gradients), now_ns(), ready_});
  }
  waiting_.clear();
  gradients_.clear();
  ready_ = nullptr;
  return answers;
}

/// Over several processes only the reduced row of presence tells which those
/// are: `put_gradients` reads it behind the gradients.
void reducer_core::remove_absent(std::size_t member,
                                 tensor_list& gradients) const {
  const bool has_all = std::ranges::count(has_[member], false) == 0;
  if (calls_->spans_processes()) {
    if (has_all)
      gradients.pop_back();
    return;
  }
  if (has_all)
    return;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (std::ranges::none_of(has_,
                             [i](const presence& each) { return each[i]; }))
      gradients[i].reset();
}

}  // namespace troupe
