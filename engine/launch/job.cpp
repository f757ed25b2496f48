#include "troupe/engine/launch/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <set>

#include "troupe/base/error.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/launch/clock_difference.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/launch/tensor_lines.hpp"
#include "troupe/engine/transport/stream/dial.hpp"

namespace troupe {

namespace {

/// Everything but the constructor, `wait` and the destructor runs on the loop's
/// thread.
class meeting {
 public:
  meeting(io_loop& loop, mesh& target, const job_options& options)
    : loop_(loop),
      mesh_(target),
      options_(options),
      place_(options.place),
      point_(meeting_point_of(options)),
      lines_(loop, options, point_, guard_,
             [this](std::int32_t process, line purpose,
                    const connection_pointer& peer) {
               add(process, purpose, peer);
               tell_if_ready();
             }) {
    members_.resize(static_cast<std::size_t>(place_.processes));
    offsets_.resize(members_.size());
  }

  ~meeting() {
    loop_.run([this] { guard_.end(); });
  }

  void wait() {
    place_.process == 0 ? open() : go_there();
    // Process 0 knows best what is missing, and informs the others.
    constexpr std::chrono::seconds for_verdict{5};
    auto left = options_.patience;
    if (place_.process != 0)
      left += for_verdict;
    auto ready = ready_.get_future();
    for (;;) {
      const auto span = std::min(left, options_.news_every);
      if (await(ready, span))
        return ready.get();
      left -= span;
      loop_.run(
        [this, last = left.count() <= 0] { last ? give_up() : tell_news(); });
    }
  }

 private:
  /// Waits for the end of the meeting; false if that took longer.
  bool await(const std::future<void>& ready, std::chrono::milliseconds span) {
    constexpr std::chrono::milliseconds look_every{50};
    const auto until = std::chrono::steady_clock::now() + span;
    while (std::chrono::steady_clock::now() < until) {
      if (ready.wait_for(std::min(span, look_every))
          == std::future_status::ready)
        return true;
      if (options_.stopped && options_.stopped())
        loop_.run([this] {
          fail_all(error_code::interrupted,
                   fmt::format("process {} was stopped while the processes of "
                               "the job were meeting",
                               place_.process));
        });
    }
    return ready.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  void open() {
    members_[0] = own_request();
    public_ = std::make_unique<acceptor>(
      loop_, parse_endpoint(point_.where), options_.shown,
      acceptor::events{
        guard_.over<stream_pointer>(
          [this](stream_pointer s) { take_connection(std::move(s)); }),
        guard_.over<const std::string&>(
          [this](const std::string& reason) { turned_away_ = reason; })});
    if (point_.tell)
      point_.tell(to_text(public_->where()));
    loop_.post(guard_.over([this] { welcome_if_all_are_there(); }));
  }

  void take_connection(stream_pointer stream) {
    auto peer = connection::make(loop_, std::move(stream));
    pending_.listen(peer, [this, peer](const rendezvous_message& said) {
      if (const auto* request = std::get_if<join_request>(&said))
        admit(*request, peer);
      else
        peer->abort();
    });
  }

  void admit(const join_request& who, const connection_pointer& peer) {
    const auto trouble = objection_to(who, members_, options_.description);
    if (!trouble.empty()) {
      peer->send(to_frame(join_refusal{trouble}));
      peer->close();
      return fail_all(error_code::mismatch, trouble);
    }
    members_[static_cast<std::size_t>(who.process)] = who;
    add(who.process, line::control, peer);
    welcome_if_all_are_there();
  }

  void welcome_if_all_are_there() {
    if (welcomed_
        || !std::ranges::all_of(members_, [](const auto& m) { return !!m; }))
      return;
    welcomed_ = true;
    join_welcome all{new_run_id(), {}};
    for (const auto& member : members_)
      all.addresses.push_back(member->address);
    for (const auto& [process, peer] : controls_)
      peer->send(to_frame(all));
    begin_lines(all);
  }

  void go_there() {
    dial(loop_, parse_endpoint(point_.where), options_.shown, options_.patience,
         guard_.over<stream_pointer>([this](stream_pointer stream) {
           auto peer = connection::make(loop_, std::move(stream));
           add(0, line::control, peer);
           peer->send(to_frame(own_request()));
         }),
         [guard = guard_](const std::string& reason) {
           guard.fail(error_code::transport,
                      "process 0 of the job can't be reached: " + reason);
         });
  }

  join_request own_request() const {
    return {place_.process, place_.processes, ::getpid(),
            host_name(),    lines_.own(),     options_.description};
  }

  /// Adds a connection of a process that has identified itself.
  void add(std::int32_t process, line purpose, const connection_pointer& peer) {
    auto early = std::make_shared<early_frames>();
    mesh_.add(process, purpose, peer, early);
    if (purpose == line::control)
      controls_[process] = peer;
    connection_events each;
    each.arrived = [this, guard = guard_, process, early](frame what) {
      if (!guard.has_ended() && what.type == frame_type::control && !is_ready_)
        hear(process, read_rendezvous(what));
      else
        early->frames.push_back(std::move(what));
    };
    each.lost = [this, guard = guard_, process, purpose,
                 early](const std::string& reason) {
      if (reason.empty() && purpose != line::control)
        return;  // its control line reports it
      early->lost = reason.empty() ? "its program has ended" : reason;
      if (!guard.has_ended() && !is_ready_)
        fail_all(error_code::transport,
                 fmt::format("process {} left before the job began: {}",
                             process, *early->lost));
    };
    peer->start(std::move(each));
  }

  void hear(std::int32_t process, const rendezvous_message& said) {
    if (!may_say(said, process == 0))
      fail(error_code::transport,
           "process {} is not allowed to send that message", process);
    if (const auto* refusal = std::get_if<join_refusal>(&said))
      fail_all(error_code::mismatch, refusal->reason);
    else if (const auto* all = std::get_if<join_welcome>(&said))
      begin_lines(*all);
    else if (const auto* question = std::get_if<clock_question>(&said))
      controls_.at(process)->send(
        to_frame(clock_answer{question->asked, now_ns()}));
    else if (const auto* answer = std::get_if<clock_answer>(&said))
      learn_clock(*answer);
    else
      hear_ready(process, std::get<job_ready>(said));
  }

  void begin_lines(const join_welcome& all) {
    if (run_ != 0 || all.run == 0 || all.addresses.size() != members_.size())
      fail(error_code::transport, "process 0 sent the welcome of another job");
    run_ = all.run;
    mesh_.set_run(run_);
    one_clock_ =
      place_.is_one_machine() || share_machine(all.addresses[0], lines_.own());
    lines_.begin(run_, all.addresses);
    if (place_.process != 0)
      controls_.at(0)->send(to_frame(clock_difference::question()));
    else
      tell_if_ready();
  }

  void learn_clock(const clock_answer& answer) {
    clock_.learn(answer);
    if (clock_.is_known())
      tell_if_ready();
    else
      controls_.at(0)->send(to_frame(clock_difference::question()));
  }

  void tell_if_ready() {
    if (!lines_.are_complete() || told_)
      return;
    if (place_.process == 0) {
      told_ = true;
      begin_if_all_are_ready();
    } else if (clock_.is_known()) {
      told_ = true;
      controls_.at(0)->send(
        to_frame(job_ready{{one_clock_ ? std::int64_t{0} : clock_.offset()}}));
    }
  }

  void hear_ready(std::int32_t process, const job_ready& ready) {
    const bool leads = place_.process == 0;
    if (ready.clock_offsets.size() != (leads ? 1 : members_.size())
        || !(leads || told_) || !were_ready_.insert(process).second)
      fail(error_code::transport,
           "process {} sent no clock reading, so that the clocks of the job "
           "can't be compared; start all processes with the same troupe",
           process);
    if (!leads) {
      offsets_ = ready.clock_offsets;
      return begin();
    }
    offsets_[static_cast<std::size_t>(process)] = ready.clock_offsets[0];
    begin_if_all_are_ready();
  }

  void begin_if_all_are_ready() {
    if (!told_ || were_ready_.size() + 1 < members_.size())
      return;
    for (const auto& [process, peer] : controls_)
      peer->send(to_frame(job_ready{offsets_}));
    begin();
  }

  void begin() {
    is_ready_ = true;
    mesh_.set_clock_offsets(offsets_);
    finish(nullptr);
  }

  void fail_all(error_code code, const std::string& reason) {
    if (is_ready_ || failed_)
      return;
    failed_ = true;
    for (const auto& [process, peer] : controls_)
      if (place_.process == 0)
        peer->send(to_frame(join_refusal{reason}));
    finish(std::make_exception_ptr(error(code, reason)));
  }

  void tell_news() const {
    if (!options_.news || finished_)
      return;
    if (place_.process == 0 && run_ == 0)
      options_.news(fmt::format("waiting for {} of {} at {}",
                                missing_of(members_), place_.processes,
                                point_.where));
    else if (!controls_.contains(0) && place_.process != 0)
      options_.news(fmt::format("waiting for process 0 at {}", point_.where));
    else
      options_.news("waiting for the others");
  }

  void give_up() {
    const auto seconds = 1e-3 * static_cast<double>(options_.patience.count());
    if (place_.process == 0 && run_ == 0)
      fail_all(error_code::transport,
               fmt::format("{} of {} did not connect to {} within {:.3g} s; "
                           "are they running, with the same {}?{}",
                           missing_of(members_), place_.processes, point_.where,
                           seconds, point_.known_by,
                           turned_away_.empty()
                             ? ""
                             : " A connection was rejected: " + turned_away_));
    fail_all(error_code::transport,
             fmt::format("the job did not begin within {:.3g} s: a process "
                         "waits for another one, or for process 0 at {}",
                         seconds, point_.where));
  }

  void finish(std::exception_ptr trouble) {
    if (std::exchange(finished_, true))
      return;
    if (trouble)
      ready_.set_exception(std::move(trouble));
    else
      ready_.set_value();
  }

  io_loop& loop_;
  mesh& mesh_;
  const job_options& options_;
  const launch_environment& place_;
  const meeting_point point_;
  std::vector<std::optional<join_request>> members_;  // used by process 0
  std::map<std::int32_t, connection_pointer> controls_;
  std::set<std::int32_t> were_ready_;
  std::string turned_away_;  // the last one refused for lack of trust
  std::uint64_t run_ = 0;
  clock_difference clock_;
  bool one_clock_ = false;  // process 0's
  std::vector<std::int64_t> offsets_;
  bool welcomed_ = false;
  bool told_ = false, is_ready_ = false, failed_ = false, finished_ = false;
  std::promise<void> ready_;
  // These may call the members above, so they come last.
  loop_guard guard_{[this](error_code code, const std::string& reason) {
    fail_all(code, reason);
  }};
  pending_connections pending_{loop_, guard_};
  tensor_lines lines_;
  std::unique_ptr<acceptor> public_;
};

/// Connections and the thread that serves them.
struct joined_job {
  explicit joined_job(const launch_environment& place)
    : connections(loop, {place.process, place.processes, 0}) {}

  io_loop loop;
  mesh connections;
};

}  // namespace

std::shared_ptr<mesh> join_job(const job_options& options) {
  auto job = std::make_shared<joined_job>(options.place);
  meeting(job->loop, job->connections, options).wait();
  return {job, &job->connections};
}

}  // namespace troupe
