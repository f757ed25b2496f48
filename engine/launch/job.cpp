#include "troupe/engine/launch/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <optional>
#include <set>

#include "troupe/base/fail.hpp"
#include "troupe/base/log_text.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/launch/clock_difference.hpp"
#include "troupe/engine/launch/late_host.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/launch/newcomers.hpp"
#include "troupe/engine/launch/rendezvous_stream.hpp"
#include "troupe/engine/launch/tensor_lines.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;

/// Connections and the thread that serves them.
struct joined_job {
  explicit joined_job(const job_place& place) : connections(loop, place) {}

  io_loop loop;
  mesh connections;
};

/// Coroutines of the thread that calls `wait`, which throws their errors. Those
/// that still wait at its end are destroyed with it.
class meeting {
 public:
  explicit meeting(const job_options& options)
    : options_(options),
      place_(options.place),
      point_(meeting_point_of(options)),
      lines_(here_.get_executor(), options, point_,
             [this] { return leads() ? begin_if_ready() : tell_if_ready(); }) {
    members_.resize(static_cast<std::size_t>(place_.processes));
    offsets_.resize(members_.size());
  }

  void wait() {
    try {
      spawn(here_.get_executor(),
            [this] { return leads() ? lead() : follow(); });
      run();
    } catch (...) {
      for (const auto& [process, peer] : controls_)
        if (leads())
          refuse(*peer, {thrown_text(), true});
      throw;
    }
  }

  /// Hands on the connections, once `wait` has returned.
  std::shared_ptr<mesh> join() {
    const auto job = std::make_shared<joined_job>(
      job_place{place_.process, place_.processes, run_});
    const auto add = [&](std::int32_t process, line purpose,
                         stream_pointer stream) {
      job->connections.add(process, purpose,
                           connection::make(job->loop, std::move(stream)));
    };
    for (const auto& [process, peer] : controls_)
      add(process, line::control, peer->take());
    for (auto& each : lines_.take())
      add(each.process, each.purpose, std::move(each.stream));
    job->connections.set_clock_offsets(offsets_);
    return {job, &job->connections};
  }

 private:
  using clock = std::chrono::steady_clock;

  bool leads() const { return place_.process == 0; }

  /// The address of process 0 may have taken some.
  std::chrono::milliseconds patience_left() const {
    using std::chrono::milliseconds;
    return std::max(milliseconds(1),
                    std::chrono::duration_cast<milliseconds>(
                      began_ + options_.patience - clock::now()));
  }

  /// Until the job begins.
  void run() {
    constexpr std::chrono::milliseconds look_every{50};
    // Process 0 knows best what is missing, and informs the others.
    constexpr std::chrono::seconds for_verdict{5};
    auto news_at = clock::now() + options_.news_every;
    const auto until = began_ + options_.patience
                       + (leads() ? std::chrono::seconds(0) : for_verdict);
    while (!is_ready_) {
      here_.run_until(std::min({clock::now() + look_every, news_at, until}));
      if (is_ready_)
        return;
      if (options_.stopped && options_.stopped())
        fail_stopped(place_);
      if (clock::now() >= until)
        give_up();
      if (clock::now() >= news_at) {
        tell_news();
        news_at += options_.news_every;
      }
    }
  }

  asio::awaitable<void> lead() {
    members_[0] = own_request();
    // All processes of a job send hellos of a similar size.
    const auto own = to_frame(*members_[0]).head.size();
    request_limit_ = static_cast<std::uint32_t>(2 * own + (64U << 10U));
    public_ = listen_for_all();
    if (point_.tell)
      point_.tell(to_text(public_->where()));
    co_await welcome_if_all_are_there();
  }

  std::unique_ptr<acceptor> listen_for_all() try {
    return std::make_unique<acceptor>(
      here_.get_executor(), parse_endpoint(point_.where), options_.shown,
      acceptor::events{
        [this](stream_pointer stream) {
          const auto peer = std::make_shared<awaited_stream>(
            here_.get_executor(), std::move(stream));
          spawn(here_.get_executor(), [this, peer] { return admit(peer); });
        },
        [this](const std::string& reason) {
          if (turned_away_.empty() && options_.news)  // once, by whomever
            options_.news("a connection was rejected: " + reason);
          turned_away_ = "a connection was rejected: " + reason + "; ";
        }});
  } catch (const error& reason) {
    if (reason.code() != error_code::io)
      throw;
    fail(error_code::io,
         "{}; if a process 0 of this job runs already, start each process with "
         "its own RANK",
         reason.what());
  }

  asio::awaitable<void> admit(std::shared_ptr<awaited_stream> peer) {
    const auto who =
      co_await newcomers_.hear_first<join_request>(peer, request_limit_);
    if (!who)
      co_return;
    const auto trouble = objection_to(*who, members_, options_.description);
    if (!trouble.empty()) {
      refuse(*peer, {trouble});
      fail(error_code::mismatch, "{}", trouble);
    }
    members_[static_cast<std::size_t>(who->process)] = who;
    controls_[who->process] = peer;
    co_await welcome_if_all_are_there();
    // The mesh reads all further bytes.
    while (!were_ready_.contains(who->process))
      co_await answer(who->process);
  }

  asio::awaitable<void> welcome_if_all_are_there() {
    if (!std::ranges::all_of(members_, [](const auto& m) { return !!m; }))
      co_return;
    join_welcome all{new_run_id(), {}};
    for (const auto& member : members_)
      all.addresses.push_back(member->address);
    begin_lines(all);
    co_await say_to_others(all);
    co_await begin_if_ready();
  }

  /// Hears one message of another process.
  asio::awaitable<void> answer(std::int32_t process) {
    const auto said = co_await hear_from(process);
    if (const auto* question = std::get_if<clock_question>(&said)) {
      co_await say_to(process, clock_answer{question->asked, now_ns()});
      co_return;
    }
    const auto* ready = std::get_if<job_ready>(&said);
    if (!ready)
      refuse_message(process);
    if (ready->clock_offsets.size() != 1)
      refuse_clock(process);
    were_ready_.insert(process);
    offsets_[static_cast<std::size_t>(process)] = ready->clock_offsets[0];
    co_await begin_if_ready();
  }

  asio::awaitable<void> begin_if_ready() {
    if (!lines_.are_complete() || were_ready_.size() + 1 < members_.size())
      co_return;
    const rendezvous_message all(job_ready{offsets_});
    co_await say_to_others(all);
    begin();
  }

  /// A published address may belong to a process 0 that has ended, as a
  /// launcher restarts the machines' processes one after the other. Each
  /// further attempt lasts twice as long, as many processes may connect at
  /// once.
  asio::awaitable<stream_pointer> reach_leader() {
    auto patience =
      point_.ask ? std::chrono::milliseconds(1000) : patience_left();
    for (auto where = point_.where;; where = point_.ask(), patience *= 2) {
      // A refusal comes at once, and is for good.
      const auto refused_until = clock::now() + patience / 4;
      try {
        co_return co_await reach(0, parse_endpoint(where), options_.shown,
                                 patience);
      } catch (const error& reason) {
        if (!point_.ask || clock::now() < refused_until)
          fail(reason.code(), "{}{}", reason.what(),
               clock::now() < refused_until ? "" : "." + point_.if_alone);
      }
    }
  }

  asio::awaitable<void> follow() {
    auto stream = co_await reach_leader();
    controls_[0] =
      std::make_shared<awaited_stream>(here_.get_executor(), std::move(stream));
    co_await say_to(0, own_request());
    const auto welcome = co_await hear_leader<join_welcome>();
    begin_lines(welcome);
    while (!clock_.is_known()) {
      co_await say_to(0, clock_difference::question());
      const auto answer = co_await hear_leader<clock_answer>();
      clock_.learn(answer);
    }
    co_await tell_if_ready();
    const auto ready = co_await hear_leader<job_ready>();
    if (!lines_.are_complete() || ready.clock_offsets.size() != members_.size())
      refuse_clock(0);
    offsets_ = ready.clock_offsets;
    begin();
  }

  asio::awaitable<void> tell_if_ready() {
    const job_ready own{{one_clock_ ? std::int64_t{0} : clock_.offset()}};
    if (lines_.are_complete() && clock_.is_known())
      co_await say_to(0, own);
  }

  template <class Message>
  asio::awaitable<Message> hear_leader() {
    const auto said = co_await hear_from(0);
    if (const auto* refusal = std::get_if<join_refusal>(&said))
      fail(refusal->ends_meeting ? error_code::transport : error_code::mismatch,
           "{}", log_text(refusal->reason));
    if (!std::holds_alternative<Message>(said))
      refuse_message(0);
    co_return std::get<Message>(said);
  }

  asio::awaitable<rendezvous_message> hear_from(std::int32_t process) {
    try {
      co_return co_await hear(*controls_.at(process));
    } catch (const std::exception& reason) {
      fail_left(process, reason);
    }
  }

  asio::awaitable<void> say_to(std::int32_t process, rendezvous_message what) {
    auto& peer = *controls_.at(process);
    try {
      co_await say(peer, what);
    } catch (const std::exception& reason) {
      fail_left(process, reason);
    }
  }

  asio::awaitable<void> say_to_others(rendezvous_message what) {
    for (const auto& [process, peer] : controls_)
      co_await say_to(process, what);
  }

  [[noreturn]] static void fail_left(std::int32_t process,
                                     const std::exception& reason) {
    fail(error_code::transport, "process {} left before the job began: {}",
         process, reason.what());
  }

  [[noreturn]] static void refuse_message(std::int32_t process) {
    fail(error_code::transport,
         "process {} is not allowed to send that message", process);
  }
  [[noreturn]] static void refuse_clock(std::int32_t process) {
    fail(error_code::transport,
         "process {} sent no clock reading, so that the clocks of the job "
         "can't be compared; start all processes with the same troupe",
         process);
  }

  join_request own_request() const {
    return {place_.process, place_.processes, ::getpid(),
            host_name(),    lines_.own(),     options_.description};
  }

  void begin_lines(const join_welcome& all) {
    if (all.run == 0 || all.addresses.size() != members_.size())
      fail(error_code::transport, "process 0 sent the welcome of another job");
    run_ = all.run;
    one_clock_ =
      place_.is_one_machine() || share_machine(all.addresses[0], lines_.own());
    lines_.begin(run_, all.addresses);
  }

  void begin() {
    is_ready_ = true;
    here_.stop();
  }

  /// The connection is new or nearly so: it has room for a sentence.
  static void refuse(awaited_stream& peer, const join_refusal& answer) {
    try {
      auto bytes = frame_start(to_frame(answer));
      const iovec part{bytes.data(), bytes.size()};
      peer.bytes().write({&part, 1});
    } catch (const std::exception&) {  // it has left
    }
    peer.close_gently();
  }

  std::string counted() const {
    return place_.counted_by.empty()
             ? std::to_string(place_.processes)
             : fmt::format("{} ({})", place_.processes, place_.counted_by);
  }

  void tell_news() const {
    if (!options_.news)
      return;
    if (leads() && run_ == 0)
      options_.news(fmt::format("waiting for {} of {} at {}",
                                missing_of(members_), counted(), point_.where));
    else if (!controls_.contains(0) && !leads())
      options_.news(fmt::format("waiting for process 0 at {}", point_.where));
    else
      options_.news("waiting for the others");
  }

  [[noreturn]] void give_up() const {
    const auto seconds = 1e-3 * static_cast<double>(options_.patience.count());
    if (leads() && run_ == 0)
      fail(error_code::transport,
           "{}{} of {} did not connect to {} within {:.3g} s; are they "
           "running, with the same {}?{}",
           turned_away_, missing_of(members_), counted(), point_.where, seconds,
           point_.known_by, point_.if_alone);
    fail(error_code::transport,
         "the job did not begin within {:.3g} s: a process waits for another "
         "one, or for process 0 at {}.{}",
         seconds, point_.where, point_.if_alone);
  }

  const clock::time_point began_ = clock::now();
  asio::io_context here_{1};
  const job_options& options_;
  const launch_environment& place_;
  const meeting_point point_;
  std::vector<std::optional<join_request>> members_;  // used by process 0
  std::map<std::int32_t, std::shared_ptr<awaited_stream>> controls_;
  newcomers newcomers_{most_newcomers(place_)};
  std::uint32_t request_limit_ = 0;  // bytes
  std::set<std::int32_t> were_ready_;
  std::string turned_away_;  // the last one lacked trust; begins an error
  std::uint64_t run_ = 0;
  clock_difference clock_;
  bool one_clock_ = false;  // process 0's
  bool is_ready_ = false;
  std::vector<std::int64_t> offsets_;
  // These may use the members above, so they come last.
  tensor_lines lines_;
  std::unique_ptr<acceptor> public_;
};

}  // namespace

std::shared_ptr<mesh> join_job(const job_options& options) {
  meeting all(options);
  all.wait();
  return all.join();
}

}  // namespace troupe
