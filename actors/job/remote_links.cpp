#include "troupe/actors/job/remote_links.hpp"

#include <fmt/format.h>

#include <concepts>
#include <optional>

#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/job/run_texts.hpp"
#include "troupe/actors/step/prepared_plan.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

remote_begin as_remote(const step_context& step) {
  const auto& plan = *step.plan;
  return {
    step.serial,
    step.settings,
    step.settings,
    step.prepared->hash(),
    {plan.schedule_name, plan.ranks(), plan.stages(), plan.placement.copies(),
     plan.microbatches, plan.slices, plan.global_norm}};
}

void remote_links::begin(const step_pointer& step) {
  checks_.begin(step);
  const std::scoped_lock lock(mutex_);
  step_ = step;
  // Waiting messages are of a step that has failed.
  channels_.assign(step->plan->channels.size(), {});
  for (std::size_t i = 0; i < channels_.size(); ++i)
    channels_[i].credits = step->plan->channels[i].credits;
}

std::int32_t remote_links::channel_of(std::int32_t message) const {
  const auto& messages = step_->plan->messages;
  if (message < 0 || static_cast<std::size_t>(message) >= messages.size())
    fail(error_code::mismatch, "the plan has no message {}", message);
  return messages[static_cast<std::size_t>(message)].channel;
}

void remote_links::deliver(std::int32_t process, stage_tensors message) {
  {
    const std::scoped_lock lock(mutex_);
    auto& channel = channels_.at(
      static_cast<std::size_t>(channel_of(message.header.message)));
    if (channel.credits == 0) {
      channel.waiting.emplace_back(process, std::move(message));
      return;
    }
    --channel.credits;
  }
  send_now(process, std::move(message));
}

void remote_links::send_now(std::int32_t process, stage_tensors message) {
  message.header.left = now_ns();
  job_->send(process, to_frame(std::move(message)), run_);
}

void remote_links::on(const credit_back& credit) {
  const std::scoped_lock lock(mutex_);
  if (!step_ || credit.serial != step_->serial)
    return;  // of a step that is over
  auto& channel =
    channels_.at(static_cast<std::size_t>(channel_of(credit.message)));
  if (channel.waiting.empty()) {
    ++channel.credits;
    return;
  }
  auto [process, message] = std::move(channel.waiting.front());
  channel.waiting.pop_front();
  send_now(process, std::move(message));
}

void remote_links::tell(const frame& control) {
  job_->broadcast(control, run_);
}

stage_tensors remote_links::receive(std::int32_t sender, frame what) {
  auto message = read_stage_tensors(std::move(what));
  const auto offset = job_->clock_offset(sender);
  message.header.sent += offset;
  message.header.left += offset;
  message.arrived = now_ns();
  const credit_back credit{message.header.serial, message.header.message};
  message.receipt = std::shared_ptr<const void>(
    nullptr, [self = shared_from_this(), sender, credit](const void*) {
      self->checks_.consumed(sender);
      self->job_->send(sender, to_frame(credit), self->run_);
    });
  return message;
}

namespace {

void report_silence(const std::string& process, double seconds,
                    std::optional<line> only) {
  if (seconds == 0)
    log()->warn("{} is responding again", process);
  else if (!only)
    log()->warn(
      "no message from {} for {:.3g} s: it is stopped or very slow; the run is "
      "waiting for it",
      process, seconds);
  else
    log()->warn(
      "nothing came over the connection for {} from {} for {:.3g} s, while "
      "another one works: what is between the processes holds it up; the run "
      "is waiting for it",
      *only == line::control ? "control messages" : "tensors", process,
      seconds);
}

/// Makes a check whose exception closes the connection: all processes get the
/// reason, not only that the connection has ended.
void require(const address_book& book, const std::function<void()>& check) {
  try {
    check();
  } catch (const error& reason) {
    caf::anon_send(book.coordinator, stop_run{reason.what()});
    throw;
  }
}

/// Hands on what has arrived.
class dispatcher {
 public:
  explicit dispatcher(address_book_pointer book) : book_(std::move(book)) {}

  void operator()(std::int32_t sender, frame what) const {
    switch (what.type) {
      case frame_type::tensors: {
        auto message = book_->links->receive(sender, std::move(what));
        const auto& header = message.header;
        caf::anon_send(stage(header.data_rank, {header.to_stage, header.copy}),
                       std::move(message));
        break;
      }
      case frame_type::copy:
        require(*book_, [&] {
          if (!book_->kept)
            fail(error_code::mismatch, "this process keeps no copies");
          book_->kept->keep(std::move(what));
        });
        break;
      case frame_type::credit:
        book_->links->on(from_wire<credit_back>(what.head));
        break;
      case frame_type::tokens:
        feed(sender, from_wire<chosen_tokens>(what.head));
        break;
      case frame_type::part: {
        auto part = read_collective_part(std::move(what));
        if (part.stage < 0 || part.stage >= book_->places.stages())
          fail(error_code::mismatch, "there is no stage {}", part.stage);
        if (part.kind == collective_kind::tied_sum
            && (book_->tied_reducers.empty() || part.copy < 0
                || part.copy >= book_->places.copies() || part.data_rank < 0
                || part.data_rank >= book_->data_ranks()))
          fail(error_code::mismatch,
               "there are no tied parameters in copy {} of replica {}",
               part.copy, part.data_rank);
        const auto& target =
          book_->reducer(part.kind, part.data_rank, {part.stage, part.copy});
        caf::anon_send(target, std::move(part));
        break;
      }
      default:
        std::visit(
          [this, sender](auto&& held) { hand_on(sender, std::move(held)); },
          read_control(std::move(what)));
    }
  }

 private:
  const stage_handle& stage(std::int32_t data_rank,
                            stage_instance which) const {
    if (!book_->places.has(which) || !book_->stage(data_rank, which))
      fail(error_code::mismatch,
           "stage {} of replica {} does not live in this process", which.stage,
           data_rank);
    return book_->stage(data_rank, which);
  }

  void feed(std::int32_t sender, chosen_tokens message) const {
    require(*book_, [&] { book_->links->checks().check(sender, message); });
    if (message.sent != 0)
      message.sent += book_->links->job().clock_offset(sender);
    const auto& first = stage(message.data_rank, {});
    caf::anon_send(first, std::move(message));
  }
  template <class Message>
  void hand_on(std::int32_t, Message message) const {
    caf::anon_send(book_->coordinator, std::move(message));
  }
  template <class Command>
  requires std::same_as<Command, remote_begin> || std::same_as<
    Command, norm_verdict> || std::same_as<Command, remote_outcome>
  void hand_on(std::int32_t, Command message) const {
    require(*book_, [&] {
      if (!book_->follower)
        fail(error_code::mismatch,
             "another process sent a command to the leading one");
    });
    caf::anon_send(book_->follower, std::move(message));
  }
  /// Its times by this process's clock.
  void hand_on(std::int32_t sender, rank_done message) const {
    require(*book_, [&] { book_->links->checks().check(sender, message); });
    const auto offset = book_->links->job().clock_offset(sender);
    const auto shift = [offset](auto&... times) {
      ((times += times != 0 ? offset : 0), ...);  // 0: there is none
    };
    for (auto& op : message.ops)
      shift(op.begin, op.end, op.ready, op.left, op.arrived, op.host_begin,
            op.host_end);
    for (auto& each : message.messages)
      shift(each.sent, each.left, each.arrived, each.taken);
    caf::anon_send(book_->coordinator, std::move(message));
  }
  void hand_on(std::int32_t sender, finish_run message) const {
    message.end = {
      run_end::kind::asked,
      fmt::format("{}: {}", in_words(sender, book_->links->layout()),
                  message.end.reason)};
    caf::anon_send(book_->coordinator, std::move(message));
  }
  void hand_on(std::int32_t sender, event message) const {
    require(*book_, [&] { book_->links->checks().check(sender, message); });
    caf::anon_send(
      book_->hub,
      publish_event{std::make_shared<const event>(std::move(message))});
  }

  address_book_pointer book_;
};

}  // namespace

mesh_events dispatch_to(const std::shared_ptr<address_book>& book) {
  return {[book](std::int32_t sender, frame_type type, const frame_head& head) {
            require(*book, [&] {
              if (type == frame_type::tensors)
                book->links->checks().check(sender, head);
              else if (type == frame_type::part)
                book->links->checks().check_part(sender, head.tensors);
            });
          },
          dispatcher(book),
          [book](std::int32_t process, const std::string& reason) {
            caf::anon_send(book->coordinator, peer_lost{process, reason});
          },
          [layout = book->links->layout()](std::int32_t process, double seconds,
                                           std::optional<line> only) {
            report_silence(in_words(process, layout), seconds, only);
          }};
}

}  // namespace troupe
