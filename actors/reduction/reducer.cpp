#include "troupe/actors/reduction/reducer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "troupe/actors/step/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

namespace {

bool reduces(collective_kind kind) {
  return kind == collective_kind::all_reduce
         || kind == collective_kind::reduce_scatter;
}

}  // namespace

reducer_core::reducer_core(std::unique_ptr<collectives> calls,
                           std::size_t members)
  : calls_(std::move(calls)), members_(members) {}

std::vector<collective_result> reducer_core::on(collective_request request) {
  const auto member_of = [](const collective_request& each) {
    return std::tuple(each.data_rank, each.owner.copy, each.owner.stage);
  };
  const auto place =
    std::ranges::lower_bound(waiting_, member_of(request), {}, member_of);
  if (place != waiting_.end() && member_of(*place) == member_of(request))
    fail(error_code::internal, "replica {} asked twice for {} of stage {}",
         request.data_rank, to_text(request.work.kind), request.owner.stage);
  require_same(request);
  waiting_.insert(place, std::move(request));
  if (waiting_.size() < members_)
    return {};
  const auto& first = waiting_.front();
  bool done = true;
  if (!launch(
        first.recorded,
        [&] {
          return fmt::format("{} of stage {}", to_text(first.work.kind),
                             first.owner.stage);
        },
        [&] { done = run(); }))
    for (auto& each : waiting_)
      each.work.tensors.clear();
  return done ? take_answers() : std::vector<collective_result>{};
}

std::vector<collective_result> reducer_core::on(collective_part part) {
  return calls_->on(std::move(part)) ? take_answers()
                                     : std::vector<collective_result>{};
}

/// Members that took different paths would wait for each other, or mix what
/// belongs apart.
void reducer_core::require_same(const collective_request& request) const {
  if (waiting_.empty())
    return;
  const auto& other = waiting_.front();
  if (request.work.kind != other.work.kind)
    fail(error_code::mismatch,
         "collective {} of stage {} is {} in replica {} copy {}, and {} in "
         "replica {} copy {}",
         call_, request.owner.stage, to_text(other.work.kind), other.data_rank,
         other.owner.copy, to_text(request.work.kind), request.data_rank,
         request.owner.copy);
  if (request.serial != other.serial)
    fail(error_code::mismatch,
         "{} of stage {} is of step {} in replica {}, and of step {} in "
         "replica {} (steps and evaluations, counted together)",
         to_text(request.work.kind), request.owner.stage, other.serial,
         other.data_rank, request.serial, request.data_rank);
}

bool reducer_core::run() {
  const at::NoGradGuard no_grad;
  auto* stream = calls_->stream(waiting_.front());
  const auto scope = stream ? stream->enter() : nullptr;
  has_.clear();
  for (auto& member : waiting_) {
    if (stream) {
      take_over(*stream, member.work.tensors, member.ready);
      if (member.work.kind == collective_kind::all_gather)
        take_over(*stream, member.work.targets, member.ready);
    }
    if (reduces(member.work.kind))
      complete(member, stream);
  }
  const bool done = calls_->run(call_++, waiting_);
  ready_ = stream ? stream->record() : nullptr;
  return done;
}

/// Zeros in place of missing gradients; for other processes also a row that
/// tells which those are.
void reducer_core::complete(collective_request& member, device_stream* stream) {
  auto& gradients = member.work.tensors;
  auto& has = has_.emplace_back();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& target = member.work.targets.at(i);
    const auto type = member.work.type_of(target);
    has.push_back(gradients[i].defined());
    gradients[i] = has.back()
                     ? gradients[i].to(type)
                     : at::zeros_like(target, target.options().dtype(type));
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

std::vector<collective_result> reducer_core::take_answers() {
  std::vector<collective_result> answers;
  for (std::size_t r = 0; r < waiting_.size(); ++r) {
    auto& request = waiting_[r];
    if (!request.work.tensors.empty() && !has_.empty())
      remove_absent(r);
    answers.push_back({request.serial, request.owner, request.data_rank,
                       std::move(request.work.tensors), now_ns(), ready_});
  }
  waiting_.clear();
  has_.clear();
  ready_ = nullptr;
  return answers;
}

/// Over several processes only the reduced row of presence tells which those
/// are: `put_gradients` reads it behind the gradients.
void reducer_core::remove_absent(std::size_t member) {
  const auto& request = waiting_[member];
  auto& gradients = waiting_[member].work.tensors;
  const bool has_all = std::ranges::count(has_[member], false) == 0;
  if (calls_->spans_processes()) {
    if (has_all)
      gradients.pop_back();
    return;
  }
  const auto is_absent = [&](std::size_t parameter) {
    return std::ranges::none_of(
      has_, [&](const presence& each) { return each[parameter]; });
  };
  if (has_all)
    return;
  if (request.work.kind == collective_kind::all_reduce) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (is_absent(i))
        gradients[i].reset();
    return;
  }
  const auto& layouts = request.work.layouts;
  const auto pieces =
    pieces_of(layouts, request.data_rank % layouts.at(0)->shards());
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (is_absent(pieces[i].parameter))
      gradients[i].reset();
}

namespace {

struct reducer_state {
  caf::event_based_actor* self;
  address_book_pointer book;
  handler_guard guard;
  reducer_core core;

  template <class Message>
  void handle(std::int32_t stage, Message& message) {
    op_failure failure{{}, "reduce", {}};
    failure.source.stage = stage;
    guard.run(
      self, *book, [&] { return failure; },
      [&] {
        for (auto& answer : core.on(std::move(message))) {
          const auto& target = book->stage(answer.data_rank, answer.owner);
          self->send(target, std::move(answer));
        }
      });
  }
};

reducer_core make_core(const collective_group& group,
                       const address_book_pointer& book) {
  const auto process = book->links ? book->links->layout().process : 0;
  const auto here =
    static_cast<std::size_t>(std::ranges::count(group.owners, process));
  if (here == group.owners.size())
    return {make_local_collectives(group.mean), here};
  return {std::make_unique<link_collectives>(
            group, process,
            [book](std::int32_t receiver, collective_part part) {
              book->links->mesh().send(receiver, to_frame(std::move(part)));
            }),
          here};
}

}  // namespace

caf::behavior reducer_actor(caf::event_based_actor* self,
                            const collective_group& group,
                            const address_book_pointer& book,
                            const handler_hook& hook) {
  auto state = std::make_shared<reducer_state>(
    reducer_state{self, book, {hook}, make_core(group, book)});
  return behavior_of<reducer_handle>(
    [state](collective_request& request) {
      state->handle(request.owner.stage, request);
    },
    [state](collective_part& part) { state->handle(part.stage, part); });
}

}  // namespace troupe
