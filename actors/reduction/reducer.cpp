#include "troupe/actors/reduction/reducer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "troupe/actors/step/recording.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

namespace {

/// Zeros in place of missing gradients, which are listed.
void complete(reduction& work) {
  for (std::size_t i = 0; i < work.gradients.size(); ++i) {
    auto& gradient = work.gradients[i];
    const auto& parameter = work.parameters.at(i);
    const auto type = work.type_of(parameter);
    if (gradient.defined()) {
      gradient = gradient.to(type);
    } else {
      gradient = at::zeros_like(parameter, parameter.options().dtype(type));
      work.absent.push_back(static_cast<std::uint32_t>(i));
    }
  }
}

/// The gradients that no member has.
void remove_absent(const collective_request& member, reduction& work) {
  const auto is_absent = [&](std::size_t parameter) {
    return std::ranges::binary_search(work.absent, parameter);
  };
  if (const auto* scattered = std::get_if<reduce_scatter>(&member.work)) {
    const auto shards = scattered->layouts.at(0)->shards();
    const auto pieces =
      pieces_of(scattered->layouts, member.data_rank % shards);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (is_absent(pieces[i].parameter))
        work.gradients[i].reset();
    return;
  }
  for (const auto parameter : work.absent)
    work.gradients.at(parameter).reset();
}

void take_over(device_stream& stream, collective_request& member) {
  if (const auto* gathered = std::get_if<all_gather>(&member.work)) {
    take_over(stream, gathered->shards, member.ready);
    take_over(stream, gathered->rows, member.ready);
  } else {
    take_over(stream, gradients_of(member.work)->gradients, member.ready);
  }
}

/// A member that could not be recorded has no gradients.
void clear(collective_work& work) {
  if (auto* const own = gradients_of(work))
    own->gradients.clear();
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
         request.data_rank, to_text(kind_of(request.work)),
         request.owner.stage);
  require_same(request);
  waiting_.insert(place, std::move(request));
  if (waiting_.size() < members_)
    return {};
  const auto& first = waiting_.front();
  bool done = true;
  if (!launch(
        first.recorded,
        [&] {
          return fmt::format("{} of stage {}", to_text(kind_of(first.work)),
                             first.owner.stage);
        },
        [&] { done = run(); }))
    for (auto& each : waiting_)
      clear(each.work);
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
  if (kind_of(request.work) != kind_of(other.work))
    fail(error_code::mismatch,
         "collective {} of stage {} is {} in replica {} copy {}, and {} in "
         "replica {} copy {}",
         call_, request.owner.stage, to_text(kind_of(other.work)),
         other.data_rank, other.owner.copy, to_text(kind_of(request.work)),
         request.data_rank, request.owner.copy);
  if (request.serial != other.serial)
    fail(error_code::mismatch,
         "{} of stage {} is of step {} in replica {}, and of step {} in "
         "replica {} (steps and evaluations, counted together)",
         to_text(kind_of(request.work)), request.owner.stage, other.serial,
         other.data_rank, request.serial, request.data_rank);
}

bool reducer_core::run() {
  const at::NoGradGuard no_grad;
  auto* stream = calls_->stream(waiting_.front());
  const auto scope = stream ? stream->enter() : nullptr;
  for (auto& member : waiting_) {
    if (stream)
      take_over(*stream, member);
    if (auto* const reduced = reduction_of(member.work))
      complete(*reduced);
  }
  const bool done = calls_->run(call_++, waiting_);
  ready_ = stream ? stream->record() : nullptr;
  return done;
}

std::vector<collective_result> reducer_core::take_answers() {
  std::vector<collective_result> answers;
  for (auto& member : waiting_) {
    collective_result answer{
      member.serial, member.owner, member.data_rank, {}, {}, now_ns(), ready_};
    auto* const reduced = reduction_of(member.work);
    if (reduced && !reduced->gradients.empty())
      remove_absent(member, *reduced);
    if (auto* const own = gradients_of(member.work)) {
      answer.gradients = std::move(own->gradients);
      answer.present = std::move(own->present);
    }
    answers.push_back(std::move(answer));
  }
  waiting_.clear();
  ready_ = nullptr;
  return answers;
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
              book->links->job().send(receiver, to_frame(std::move(part)));
            }),
          here};
}

}  // namespace

behavior_for<reducer_handle> reducer_actor(caf::event_based_actor* self,
                                           const collective_group& group,
                                           const address_book_pointer& book,
                                           const handler_hook& hook) {
  auto state = std::make_shared<reducer_state>(
    reducer_state{self, book, {hook}, make_core(group, book)});
  return {[state](collective_request& request) {
            state->handle(request.owner.stage, request);
          },
          [state](collective_part& part) { state->handle(part.stage, part); }};
}

}  // namespace troupe
