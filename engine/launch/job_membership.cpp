#include "troupe/engine/launch/job_membership.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/membership/member.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/stream/dial.hpp"

namespace troupe {

namespace {

using namespace membership;
namespace asio = boost::asio;

constexpr std::chrono::milliseconds look_every{50};

/// Runs on this thread until it is connected.
stream_pointer connect_to(const endpoint& address, const credentials& shown,
                          std::chrono::milliseconds patience) {
  asio::io_context here(1);
  stream_pointer stream;
  spawn(here.get_executor(), [&]() -> asio::awaitable<void> {
    stream = co_await dial(address, shown, patience);
  });
  here.run();
  return stream;
}

std::vector<held_copy> copies_of(const std::vector<held_rank>& held) {
  std::vector<held_copy> copies;
  for (const auto& each : held)
    copies.push_back({each.rank, each.step, copy_kind::snapshot});
  return copies;
}

std::int32_t index_of(const epoch& of, member_id member) {
  return static_cast<std::int32_t>(std::ranges::lower_bound(of.members, member)
                                   - of.members.begin());
}

std::vector<std::int32_t> hosting_of(const epoch& of) {
  std::vector<std::int32_t> hosting;
  for (const auto member : of.hosting)
    hosting.push_back(index_of(of, member));
  return hosting;
}

}  // namespace

struct job_membership::impl {
  explicit impl(membership_options wanted)
    : options(std::move(wanted)), timer(loop.context()) {}
  ~impl() {
    loop.run([this] {
      timer.cancel();
      if (link)
        link->abort();
    });
    loop.run([] {});  // its events are over
  }

  /// Says goodbye, for which the other side takes some time.
  void finish() {
    constexpr std::chrono::milliseconds look{2};
    loop.run([this] {
      timer.cancel();
      link->close();
    });
    for (int i = 0; i < 100 && !link->is_closed(); ++i)
      std::this_thread::sleep_for(look);
  }

  void join() {
    const auto address = parse_endpoint(options.authority);
    link = connection::make(loop, connect_to(address, options.joining.shown,
                                             options.joining.patience));
    loop.run([this] { start(); });
    link->send(to_frame(membership_request{
      options.joining.place.process,
      ::getpid(),
      {options.pipeline_ranks, options.replicas, options.is_sharded},
      options.hosting,
      options.joining.description}));
    std::unique_lock lock(mutex);
    const auto has_answer = [this] { return self || refusal || lost; };
    if (!changed.wait_for(lock, options.joining.patience, has_answer))
      fail(error_code::transport, "the job's authority at {} does not answer",
           options.authority);
    if (refusal)
      fail(error_code::mismatch, "the job's authority refuses this process: {}",
           *refusal);
    require_authority();
  }

  /// On the loop's thread, as all that follow up to `look`.
  void start() {
    connection_events handlers;
    handlers.arrived = [this](const frame& what) {
      take(read_membership(what));
    };
    handlers.lost = [this](const std::string& reason) {
      const std::scoped_lock lock(mutex);
      lost = reason.empty() ? "it has ended" : reason;
      changed.notify_all();
    };
    link->start(std::move(handlers));
    look();
  }

  void take(const membership_message& message) {
    const std::scoped_lock lock(mutex);
    if (const auto* welcome = std::get_if<membership_welcome>(&message)) {
      own = welcome->member;
      job = welcome->job;
      self.emplace(member_options{.self = own}, membership_time());
    } else if (const auto* refused = std::get_if<membership_refusal>(&message))
      refusal = refused->reason;
    else if (const auto* order = std::get_if<authority_order>(&message);
             order != nullptr && self)
      act(self->receive(membership_time(), *order));
    else
      fail(error_code::transport, "that message is not an authority's");
    changed.notify_all();
  }

  void look() {
    std::function<void()> call;
    {
      const std::scoped_lock lock(mutex);
      if (self)
        act(self->tick(membership_time()));
      if (self && !is_at_rest)
        call = next_call();
    }
    if (call)
      call();
    timer.expires_after(look_every);
    timer.async_wait([this](const auto& problem) {
      if (!problem)
        look();
    });
  }

  /// First the executor is asked to come to rest, and then, once, told to.
  std::function<void()> next_call() {
    const auto stage = self->stage();
    if (stage == member_stage::running && leaves_since && events.stays
        && membership_time() - *leaves_since >= options.leave_within) {
      leaves_since.reset();
      return events.stays;
    }
    if (stage != member_stage::freezing && stage != member_stage::left)
      return {};
    const bool at_once = membership_time() - asked_at >= options.rest_within;
    const auto wanted = at_once ? 2 : 1;
    if (calls >= wanted || !events.change)
      return {};
    calls = wanted;
    return [change = events.change, at_once] { change(at_once); };
  }

  // With the lock.

  void act(const member_output& out) {
    if (out.stops_steps && is_at_rest)
      return stop();
    if (out.stops_steps) {
      calls = 0;
      asked_at = membership_time();
    }
    if (out.report)
      link->send(to_frame(*out.report));
    if (out.leaves || out.stops_job) {
      calls = 0;
      asked_at = membership_time() - options.rest_within;
    }
    if (out.stops_job)
      job_stopped = *out.stops_job;
    changed.notify_all();
  }
  /// With what is held.
  void stop() {
    self->checkpoint_saved(0);
    act(self->stopped(membership_time(), held));
  }
  void require_authority() const {
    if (lost)
      fail(error_code::transport, "the job's authority is lost: {}", *lost);
  }
  void require_membership() const {
    require_authority();
    if (job_stopped)
      fail(error_code::op_failed, "the job was stopped: {}", *job_stopped);
    if (options.joining.stopped && options.joining.stopped())
      fail(error_code::interrupted,
           "stopped while the processes of the job met");
  }
  bool is_frozen() const {
    return self->stage() == member_stage::freezing
           || self->stage() == member_stage::frozen;
  }

  /// This process's part of an epoch is over, for a reason of its own.
  void fail_epoch() {
    if (self->stage() == member_stage::idle
        || self->stage() == member_stage::left || is_frozen())
      return;
    act(self->fail(membership_time(), {.kind = trouble_kind::link_broken,
                                       .epoch = self->current().number,
                                       .what = "a process was lost"}));
  }

  /// None if this process is to leave.
  std::optional<epoch> await_epoch(std::unique_lock<std::mutex>& lock) {
    while (self->stage() != member_stage::preparing
           || self->current().number == met) {
      require_membership();
      if (self->stage() == member_stage::left)
        return std::nullopt;
      changed.wait_for(lock, look_every);
    }
    met = self->current().number;
    return self->current();
  }

  job_meeting meet(std::vector<held_copy> copies) {
    std::unique_lock lock(mutex);
    held = std::move(copies);
    is_at_rest = true;
    if (self->stage() == member_stage::freezing)
      stop();
    for (;;) {
      fail_epoch();
      const auto of = await_epoch(lock);
      if (!of)
        return {};
      lock.unlock();
      auto job = join(*of);
      lock.lock();
      act(self->loaded(membership_time(), of->number));
      if (job && self->stage() == member_stage::ready) {
        is_at_rest = false;
        return {std::move(job), hosting_of(*of), of->number};
      }
      lock.unlock();
      if (job)
        job->leave();
      job.reset();
      lock.lock();
    }
  }

  /// Meets the members of an epoch, unless there is another one meanwhile.
  std::shared_ptr<mesh> join(const epoch& of) {
    auto joining = options.joining;
    auto& place = joining.place;
    place.process = index_of(of, own);
    place.processes = static_cast<std::int32_t>(of.members.size());
    if (parse_endpoint(options.authority).is_unix)
      place.local_processes = place.processes;
    place.launcher = "troupe launch";
    place.job = fmt::format("{} epoch {}", job, of.number);
    joining.stopped = [this, number = of.number] {
      const std::scoped_lock lock(mutex);
      return lost || job_stopped || is_frozen()
             || (options.joining.stopped && options.joining.stopped());
    };
    try {
      return join_job(joining);
    } catch (const error& reason) {
      if (reason.code() != error_code::transport
          && reason.code() != error_code::interrupted)
        throw;
      return nullptr;
    }
  }

  const membership_options options;
  io_loop loop;
  connection_pointer link;
  asio::steady_timer timer;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::optional<member> self;
  member_id own = no_member;
  std::string job;  // its name
  std::optional<std::string> refusal, lost, job_stopped;
  membership_events events;
  std::optional<moment> leaves_since;
  bool is_at_rest = true;
  std::vector<held_copy> held;
  std::int64_t met = 0;  // the last epoch whose members have met here
  int calls = 0;         // of the handler, since a freeze
  moment asked_at{};
};

job_membership::job_membership(membership_options options)
  : impl_(std::make_unique<impl>(std::move(options))) {
  impl_->join();
}

job_membership::~job_membership() = default;

void job_membership::on_events(membership_events handlers) {
  impl_->loop.run([&] {
    const std::scoped_lock lock(impl_->mutex);
    impl_->events = std::move(handlers);
  });
}

void job_membership::leave() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->leaves_since = membership_time();
  impl_->act(impl_->self->drain(membership_time()));
}

job_meeting job_membership::meet(const std::vector<held_rank>& held) {
  return impl_->meet(copies_of(held));
}

void job_membership::finish() {
  impl_->finish();
}

bool job_membership::has_left() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->self->stage() == member_stage::left;
}

void job_membership::request_hosting(std::vector<std::int32_t> hosting) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->link->send(to_frame(hosting_request{impl_->met, std::move(hosting)}));
}

}  // namespace troupe
