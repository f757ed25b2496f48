#include "troupe/engine/launch/meeting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <set>

#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/launch/clock_difference.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/acceptor.hpp"
#include "troupe/engine/transport/dial.hpp"
#include "troupe/engine/transport/shared_stream.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

/// All but the constructor, `wait` and the destructor runs on the loop's
/// thread.
class meeting {
 public:
  meeting(io_loop& loop, mesh& into, const job_options& options)
    : loop_(loop),
      mesh_(into),
      options_(options),
      place_(options.place),
      point_(meeting_point_of(options)) {
    members_.resize(static_cast<std::size_t>(place_.processes));
    offsets_.resize(members_.size());
    own_ = std::make_unique<acceptor>(
      loop_, parse_endpoint(point_.own_lines), options_.shown,
      acceptor::events{[this](stream_pointer s) { take_line(std::move(s)); }});
    place_.process == 0 ? open() : go_there();
  }

  ~meeting() {
    // No event comes after an acceptor is gone.
    public_.reset();
    own_.reset();
    loop_.run([this] { *alive_ = false; });
  }

  void wait() {
    // Process 0 knows best what is missing, and tells the others.
    constexpr std::chrono::seconds for_verdict{5};
    auto left = options_.patience;
    if (place_.process != 0)
      left += for_verdict;
    auto ready = ready_.get_future();
    for (;;) {
      const auto span = std::min(left, options_.news_every);
      if (ready.wait_for(span) == std::future_status::ready)
        return ready.get();
      left -= span;
      loop_.run(
        [this, last = left.count() <= 0] { last ? give_up() : tell_news(); });
    }
  }

 private:
  void open() {
    members_[0] = own_request();
    public_ = std::make_unique<acceptor>(
      loop_, parse_endpoint(point_.where), options_.shown,
      acceptor::events{
        [this](stream_pointer s) { take_newcomer(std::move(s)); },
        [this](const std::string& reason) { turned_away_ = reason; }});
    if (point_.tell)
      point_.tell(to_text(public_->where()));
    loop_.post(guarded([this] { welcome_if_all_are_there(); }));
  }

  void take_newcomer(stream_pointer stream) {
    auto with = connection::make(loop_, std::move(stream));
    listen(with, [this, with](const rendezvous_message& said) {
      newcomers_.erase(with);
      if (const auto* request = std::get_if<join_request>(&said))
        admit(*request, with);
      else
        with->abort();
    });
  }

  void admit(const join_request& who, const connection_pointer& with) {
    const auto trouble = objection_to(who, members_, options_.description);
    if (!trouble.empty()) {
      with->send(to_frame(join_refusal{trouble}));
      with->close();
      return fail_all(error_code::mismatch, trouble);
    }
    members_[static_cast<std::size_t>(who.process)] = who;
    add(who.process, line::control, with);
    welcome_if_all_are_there();
  }

  void welcome_if_all_are_there() {
    if (!std::ranges::all_of(members_, [](const auto& m) { return !!m; }))
      return;
    join_welcome all{new_run_id(), {}};
    for (const auto& member : members_)
      all.listens.push_back(member->listens);
    for (const auto& [process, with] : controls_)
      with->send(to_frame(all));
    begin_lines(all);
  }

  void go_there() {
    dial(loop_, parse_endpoint(point_.where), options_.shown, options_.patience,
         guarded<stream_pointer>([this](stream_pointer stream) {
           auto with = connection::make(loop_, std::move(stream));
           add(0, line::control, with);
           with->send(to_frame(own_request()));
         }),
         when_not("process 0 of the job"));
  }

  join_request own_request() const {
    const auto listens =
      point_.announced.empty() ? to_text(own_->where()) : point_.announced;
    return {place_.process, place_.processes, ::getpid(),
            host_name(),    listens,          options_.description};
  }

  /// Of a process that is known from now on.
  void add(std::int32_t process, line purpose, const connection_pointer& with) {
    auto early = std::make_shared<early_frames>();
    mesh_.add(process, purpose, with, early);
    if (purpose == line::control)
      controls_[process] = with;
    connection_events each;
    each.arrived = [this, alive = alive_, process, early](frame what) {
      if (*alive && what.type == frame_type::control && !is_ready_)
        hear(process, read_rendezvous(what));
      else
        early->frames.push_back(std::move(what));
    };
    each.lost = [this, alive = alive_, process, purpose,
                 early](const std::string& reason) {
      if (reason.empty() && purpose != line::control)
        return;  // its control line tells
      early->lost = reason.empty() ? "its program has ended" : reason;
      if (*alive && !is_ready_)
        fail_all(error_code::transport,
                 fmt::format("process {} left before the job began: {}",
                             process, *early->lost));
    };
    with->start(std::move(each));
  }

  void hear(std::int32_t process, const rendezvous_message& said) {
    if (!may_say(said, process == 0))
      fail(error_code::transport, "process {} may not say that", process);
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
    if (run_ != 0 || all.run == 0 || all.listens.size() != members_.size())
      fail(error_code::transport, "process 0 welcomes to another job");
    run_ = all.run;
    mesh_.set_run(run_);
    for (std::int32_t p = 0; p < place_.processes; ++p) {
      if (p == place_.process)
        continue;
      dial(loop_, parse_endpoint(all.listens.at(static_cast<std::size_t>(p))),
           options_.shown, options_.patience,
           guarded<stream_pointer>([this, p](stream_pointer stream) {
             auto with = connection::make(
               loop_, as_line(std::move(stream), link_side::client));
             with->send(to_frame(line_hello{run_, place_.process}));
             add(p, line::outgoing, with);
             ++lines_;
             tell_if_ready();
           }),
           when_not(fmt::format("process {}", p)));
    }
    for (auto& [hello, with] : std::exchange(early_lines_, {}))
      take_line(hello, with);
    if (place_.process != 0)
      controls_.at(0)->send(to_frame(clock_difference::question()));
    else
      tell_if_ready();
  }

  stream_pointer as_line(stream_pointer stream, link_side side) const {
    const bool shared =
      options_.lines == line_kind::shared_memory && own_->where().is_unix;
    return shared ? shared_stream(std::move(stream), side) : std::move(stream);
  }

  void take_line(stream_pointer stream) {
    auto with =
      connection::make(loop_, as_line(std::move(stream), link_side::server));
    listen(with, [this, with](const rendezvous_message& said) {
      newcomers_.erase(with);
      if (const auto* hello = std::get_if<line_hello>(&said))
        take_line(*hello, with);
      else
        with->abort();
    });
  }

  void take_line(const line_hello& hello, const connection_pointer& with) {
    if (run_ == 0) {
      early_lines_.emplace_back(hello, with);
      return;
    }
    const bool expected = hello.run == run_ && hello.process >= 0
                          && hello.process < place_.processes
                          && hello.process != place_.process
                          && came_in_.insert(hello.process).second;
    if (!expected)
      return with->abort();
    add(hello.process, line::incoming, with);
    ++lines_;
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
    if (lines_ < 2 * (place_.processes - 1) || told_)
      return;
    if (place_.process == 0) {
      told_ = true;
      begin_if_all_are_ready();
    } else if (clock_.is_known()) {
      told_ = true;
      controls_.at(0)->send(to_frame(job_ready{
        {place_.is_one_machine() ? std::int64_t{0} : clock_.offset()}}));
    }
  }

  void hear_ready(std::int32_t process, const job_ready& ready) {
    const bool leads = place_.process == 0;
    if (ready.clock_offsets.size() != (leads ? 1 : members_.size())
        || !(leads || told_) || !were_ready_.insert(process).second)
      fail(error_code::transport, "process {} tells no time", process);
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
    for (const auto& [process, with] : controls_)
      with->send(to_frame(job_ready{offsets_}));
    begin();
  }

  void begin() {
    is_ready_ = true;
    mesh_.set_clock_offsets(offsets_);
    finish(nullptr);
  }

  /// One message of somebody who has not said who he is, without tensors.
  void listen(const connection_pointer& with,
              std::function<void(const rendezvous_message&)> then) {
    newcomers_.insert(with);
    connection_events each;
    each.limits = {.head_bytes = 1U << 20, .tensor_bytes = 0};
    auto heard = std::make_shared<bool>(false);
    each.arrived = [this, alive = alive_, with, then = std::move(then),
                    heard](frame what) {
      if (*alive && !std::exchange(*heard, true))
        loop_.post(
          guarded([then, said = read_rendezvous(what)] { then(said); }));
    };
    each.lost = [this, alive = alive_, with](const std::string&) {
      if (*alive)
        newcomers_.erase(with);
    };
    with->start(std::move(each));
  }

  void fail_all(error_code code, const std::string& reason) {
    if (is_ready_ || failed_)
      return;
    failed_ = true;
    for (const auto& [process, with] : controls_)
      if (place_.process == 0)
        with->send(to_frame(join_refusal{reason}));
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
               fmt::format("{} of {} did not come to {} within {:.3g} s; do "
                           "they run, with the same {}?{}",
                           missing_of(members_), place_.processes, point_.where,
                           seconds, point_.known_by,
                           turned_away_.empty()
                             ? ""
                             : " Somebody was turned away: " + turned_away_));
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

  /// Work that is left out once this is gone; what it throws fails the job.
  template <class... Given, class Work>
  std::function<void(Given...)> guarded(Work work) {
    return [this, alive = alive_, work = std::move(work)](Given... given) {
      try {
        if (*alive)
          work(std::move(given)...);
      } catch (const error& reason) {
        fail_all(reason.code(), reason.what());
      }
    };
  }
  std::function<void(const std::string&)> when_not(const std::string& who) {
    return [this, alive = alive_, who](const std::string& reason) {
      if (*alive)
        fail_all(error_code::transport,
                 fmt::format("{} can't be reached: {}", who, reason));
    };
  }

  io_loop& loop_;
  mesh& mesh_;
  const job_options& options_;
  const launch_environment& place_;
  const meeting_point point_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<acceptor> public_, own_;
  std::set<connection_pointer> newcomers_;
  std::vector<std::optional<join_request>> members_;  // of process 0
  std::map<std::int32_t, connection_pointer> controls_;
  std::vector<std::pair<line_hello, connection_pointer>> early_lines_;
  std::set<std::int32_t> came_in_, were_ready_;
  std::string turned_away_;  // the last who came without the right trust
  std::uint64_t run_ = 0;
  std::int32_t lines_ = 0;
  clock_difference clock_;
  std::vector<std::int64_t> offsets_;
  bool told_ = false, is_ready_ = false, failed_ = false, finished_ = false;
  std::promise<void> ready_;
};

}  // namespace

void meet(io_loop& loop, mesh& into, const job_options& options) {
  meeting(loop, into, options).wait();
}

}  // namespace troupe
