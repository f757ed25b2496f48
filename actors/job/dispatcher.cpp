#include "troupe/actors/job/dispatcher.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "troupe/actors/job/remote_links.hpp"
#include "troupe/actors/step/stall_watch.hpp"
#include "troupe/base/error.hpp"

namespace troupe {

namespace {

class dispatcher {
 public:
  dispatcher(address_book_pointer book, tensor_admission admission)
    : book_(std::move(book)),
      admission_(std::make_shared<tensor_admission>(std::move(admission))) {}

  mesh_events events() const {
    return {
      [book = book_, admission = admission_](
        std::int32_t sender, frame_type type, const frame_head& head) {
        obey(*book, [&] {
          if (type == frame_type::tensors)
            admission->check(sender, book->links->admit(sender, head),
                             head.tensors);
          else if (type == frame_type::part)
            admission->check_part(sender, head.tensors);
        });
      },
      [*this](std::int32_t sender, frame what) {
        dispatch(sender, std::move(what));
      },
      [book = book_](std::int32_t process, const std::string& reason) {
        caf::anon_send(book->coordinator, peer_lost{process, reason});
      },
      [layout = book_->links->layout()](std::int32_t process, double seconds) {
        if (seconds > 0)
          spdlog::warn(
            "no message from {} for {:.3g} s: it is stopped or very slow; the "
            "run is waiting for it",
            in_words(process, layout), seconds);
        else
          spdlog::warn("{} is responding again", in_words(process, layout));
      }};
  }

 private:
  /// Closes a connection that breaks the protocol; all processes get the
  /// reason, not only that the connection has ended.
  static void obey(const address_book& book,
                   const std::function<void()>& check) {
    try {
      check();
    } catch (const error& reason) {
      caf::anon_send(book.coordinator, stop_run{reason.what()});
      throw;
    }
  }

  void dispatch(std::int32_t sender, frame what) const {
    switch (what.type) {
      case frame_type::tensors: {
        auto message = book_->links->receive(sender, std::move(what));
        const auto& header = message.header;
        caf::anon_send(stage(header.data_rank, {header.to_stage, header.copy}),
                       std::move(message));
        break;
      }
      case frame_type::credit:
        book_->links->on(read_credit(what));
        break;
      case frame_type::part: {
        auto part = read_collective_part(std::move(what));
        if (part.stage < 0 || part.stage >= book_->placement.stages())
          fail(error_code::mismatch, "there is no stage {}", part.stage);
        if (part.kind == collective_kind::tied_sum
            && (book_->tied_reducers.empty() || part.copy < 0
                || part.copy >= book_->placement.copies() || part.data_rank < 0
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

  const stage_handle& stage(std::int32_t data_rank,
                            stage_instance which) const {
    if (!book_->placement.has(which) || !book_->stage(data_rank, which))
      fail(error_code::mismatch,
           "stage {} of replica {} does not live in this process", which.stage,
           data_rank);
    return book_->stage(data_rank, which);
  }

  template <class Message>
  void hand_on(std::int32_t, Message message) const {
    caf::anon_send(book_->coordinator, std::move(message));
  }
  void hand_on(std::int32_t, remote_begin message) const {
    follow(std::move(message));
  }
  void hand_on(std::int32_t, norm_known message) const {
    follow(std::move(message));
  }
  void hand_on(std::int32_t, remote_outcome message) const {
    follow(std::move(message));
  }
  template <class Message>
  void follow(Message message) const {
    obey(*book_, [&] {
      if (!book_->follower)
        fail(error_code::mismatch,
             "another process sent a command to the leading one");
    });
    caf::anon_send(book_->follower, std::move(message));
  }
  /// Its times by this process's clock.
  void hand_on(std::int32_t sender, rank_done message) const {
    obey(*book_, [&] { book_->links->check(sender, message); });
    const auto offset = book_->links->mesh().clock_offset(sender);
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
  void hand_on(std::int32_t sender, chosen_tokens message) const {
    obey(*book_, [&] { book_->links->check(sender, message); });
    if (message.sent != 0)
      message.sent += book_->links->mesh().clock_offset(sender);
    const auto& first = stage(message.data_rank, {});
    caf::anon_send(first, std::move(message));
  }
  void hand_on(std::int32_t, interrupt_run message) const {
    caf::anon_send(book_->coordinator, stop_run{std::move(message.reason)});
  }
  void hand_on(std::int32_t sender, finish_run message) const {
    message.end = {
      run_end::kind::asked,
      fmt::format("{}: {}", in_words(sender, book_->links->layout()),
                  message.end.reason)};
    caf::anon_send(book_->coordinator, std::move(message));
  }
  void hand_on(std::int32_t sender, event message) const {
    obey(*book_, [&] { book_->links->check(sender, message); });
    caf::anon_send(
      book_->hub,
      publish_event{std::make_shared<const event>(std::move(message))});
  }

  address_book_pointer book_;
  std::shared_ptr<tensor_admission> admission_;
};

}  // namespace

mesh_events dispatch_to(const address_book_pointer& book,
                        tensor_admission admission) {
  return dispatcher(book, std::move(admission)).events();
}

}  // namespace troupe
