#include "troupe/engine/launch/authority_server.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/launch/record_in_memory.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/membership/authority.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/stream/acceptor.hpp"

namespace troupe {

namespace {

using namespace membership;

constexpr std::chrono::milliseconds tick_every{100};

}  // namespace

struct authority_server::impl {
  impl(const endpoint& where, authority_server_options wanted)
    : options(std::move(wanted)),
      wanted_hosts(options.processes),
      next_member(options.processes + options.spares),
      timer(loop.context()) {
    loop.run([&] {
      incoming = std::make_unique<acceptor>(
        loop.context().get_executor(), where, options.shown,
        acceptor::events{[this](stream_pointer stream) {
          admit(connection::make(loop, std::move(stream)));
        }});
      tick();
    });
  }
  ~impl() {
    loop.run([&] {
      incoming.reset();
      timer.cancel();
      for (const auto& each : unidentified)
        each->abort();
      for (const auto& [member, link] : processes)
        link->abort();
    });
    loop.run([] {});  // their events are over
  }

  /// The first message of a process tells who it is.
  void admit(const connection_pointer& link) {
    unidentified.insert(link);
    const auto member = std::make_shared<member_id>(no_member);
    connection_events handlers;
    handlers.arrived = [this, member, by = link.get()](const frame& what) {
      const auto message = read_membership(what);
      if (*member != no_member)
        return take(*member, message);
      const auto* about = std::get_if<membership_request>(&message);
      if (about == nullptr)
        fail(error_code::transport, "a process did not say who it is");
      *member = add(*about, by->shared_from_this());
    };
    handlers.lost = [this, member, by = link.get()](const std::string& why) {
      unidentified.erase(by->shared_from_this());
      if (*member == no_member)
        return;
      if (why.empty())
        note_goodbye(*member);
      lose(*member);
    };
    link->start(std::move(handlers));
  }

  member_id add(const membership_request& about, connection_pointer link) {
    if (const auto reason = objection_to(about); !reason.empty()) {
      link->send(to_frame(membership_refusal{reason}));
      link->close();
      unidentified.erase(link);
      return no_member;
    }
    if (!decides)
      begin_job(about);
    const bool is_first =
      about.process >= 0 && first_lives.insert(about.process).second;
    const auto member = is_first ? member_id{about.process} : next_member++;
    wanted_hosts += about.process < 0 ? 1 : 0;
    unidentified.erase(link);
    link->send(to_frame(membership_welcome{member, options.job}));
    const std::scoped_lock lock(mutex);
    requests[member] = about;
    processes[member] = std::move(link);
    return member;
  }

  std::string objection_to(const membership_request& about) const {
    if (is_done)
      return "the job is done";
    const auto all = options.processes + options.spares;
    if (about.process < -1 || about.process >= all)
      return fmt::format("there is no process {} in a job of {}", about.process,
                         all);
    if (about.process < 0 && !decides)
      return "the job has not begun";
    if (decides) {
      const auto differs = difference(first.description, about.description);
      return !differs.empty()
               ? "it was started differently from the job's first process: "
                   + differs
             : about.shape == first.shape
               ? ""
               : "it has other ranks than the job's first process";
    }
    const auto ranks = about.shape.ranks();
    if (about.shape.pipeline_ranks < 1 || about.shape.replicas < 1
        || std::cmp_not_equal(about.hosting.size(), ranks)
        || !std::ranges::all_of(about.hosting, [&](std::int32_t host) {
             return host >= 0 && host < all;
           }))
      return "its hosting does not fit its ranks";
    return {};
  }

  void begin_job(const membership_request& about) {
    first = about;
    job_record record;
    record.epoch.hosting.assign(about.hosting.begin(), about.hosting.end());
    store = std::make_unique<record_in_memory>(std::move(record));
    authority_options wanted{
      .shape = about.shape,
      .least_members = options.processes + options.spares,
      .lease = std::chrono::minutes(1),
      .silent_after = options.silent_after};
    wanted.policy.lost_member = {.action = remedy::rehost,
                                 .most = options.most_losses,
                                 .within = options.losses_within};
    decides = std::make_unique<authority>(wanted, *store);
  }

  void take(member_id member, const membership_message& message) {
    if (is_done)
      return;
    if (const auto* report = std::get_if<member_report>(&message)) {
      if (report->member == member)
        send(decides->receive(membership_time(), *report));
    } else if (const auto* wish = std::get_if<hosting_request>(&message)) {
      note(*wish);
    } else {
      fail(error_code::transport, "that message is the authority's");
    }
  }

  /// A wish of an earlier epoch speaks of other processes.
  void note(const hosting_request& wish) {
    const auto& now = decides->record().epoch;
    if (wish.epoch != now.number || wish.hosting.size() != now.hosting.size())
      return;
    for (const auto process : wish.hosting)
      if (process < 0 || std::cmp_greater_equal(process, now.members.size()))
        return;
    const auto before = now;
    for (std::size_t rank = 0; rank < wish.hosting.size(); ++rank)
      if (const auto to =
            before.members[static_cast<std::size_t>(wish.hosting[rank])];
          to != before.hosting[rank])
        send(decides->move(membership_time(),
                           {static_cast<std::int32_t>(rank), to}));
  }

  /// A member that says goodbye without having been told to leave knows that
  /// the job is done.
  void note_goodbye(member_id member) {
    const auto is_member = [&](member_id which) {
      return std::ranges::binary_search(members, which);
    };
    if (is_done || !processes.contains(member) || left.contains(member)
        || !is_member(member))
      return;
    is_done = true;
    for (const auto& [other, link] : processes)
      if (!is_member(other))
        link->send(to_frame(
          authority_order{.member = other, .kind = order_kind::leave}));
  }

  void lose(member_id member) {
    const auto who = processes.find(member);
    if (who == processes.end())
      return;
    {
      const std::scoped_lock lock(mutex);
      processes.erase(who);
    }
    if (!is_done)
      send(decides->member_ended(membership_time(), member));
  }

  void send(const authority_output& out) {
    note_epoch();
    for (const auto& order : out.orders) {
      if (order.kind == order_kind::leave) {
        const std::scoped_lock lock(mutex);
        left.insert(order.member);
      }
      if (const auto to = processes.find(order.member); to != processes.end())
        to->second->send(to_frame(order));
    }
  }

  void give_up_absent(const std::vector<member_id>& now) {
    for (const auto& [member, link] : processes)
      if (options.given_up && !left.contains(member)
          && std::ranges::binary_search(members, member)
          && !std::ranges::binary_search(now, member))
        options.given_up(requests.at(member).pid);
  }

  /// The last member of that process.
  std::optional<member_id> member_of(std::int64_t pid) const {
    std::optional<member_id> found;
    for (const auto& [member, about] : requests)
      if (about.pid == pid)
        found = member;
    return found;
  }

  std::string name_of(member_id member) const {
    const auto& about = requests.at(member);
    return about.process < 0
             ? fmt::format("the process of pid {}", about.pid)
             : fmt::format("process {} (pid {})", about.process, about.pid);
  }

  /// Why there is another epoch: who has gone, and who has come.
  std::string cause_of(const epoch& next) const {
    std::vector<std::string> parts;
    const auto note = [&](const auto& before, const auto& after,
                          const auto& text) {
      for (const auto member : before)
        if (!std::ranges::binary_search(after, member))
          parts.push_back(name_of(member) + text(member));
    };
    note(members, next.members, [&](member_id member) {
      return left.contains(member) ? " has left" : " was lost";
    });
    note(next.members, members, [](member_id) { return " has joined"; });
    return parts.empty() ? next.cause
                         : fmt::format("{}", fmt::join(parts, ", "));
  }

  void note_epoch() {
    const auto& record = decides->record();
    const auto& next = record.epoch;
    if (std::exchange(reported_epoch, next.number) != next.number
        && next.number > 1 && options.news)
      options.news(fmt::format("epoch {}: {}; {} process{}", next.number,
                               cause_of(next), next.members.size(),
                               next.members.size() == 1 ? "" : "es"));
    give_up_absent(next.members);
    const std::scoped_lock lock(mutex);
    members = record.epoch.members;
    if (!record.stop_reason.empty())
      stopped = record.stop_reason;
  }

  /// Processes that came later get their share of the ranks, once, if hosts are
  /// missing then.
  void offer_shares() {
    auto hosting = decides->record().epoch.hosting;
    std::set<member_id> hosts(hosting.begin(), hosting.end());
    std::vector<rank_move> wishes;
    for (const auto& each : decides->seats()) {
      const bool is_new = each.member >= options.processes + options.spares
                          && (each.last.stage == member_stage::frozen
                              || each.last.stage == member_stage::running)
                          && !hosts.contains(each.member)
                          && !offered.contains(each.member);
      if (!is_new || decides->phase() != authority_phase::running
          || std::cmp_greater_equal(hosts.size(), wanted_hosts))
        continue;
      offered.insert(each.member);
      for (const auto& wish : share_of(hosting, each.member)) {
        hosting[static_cast<std::size_t>(wish.rank)] = wish.to;
        wishes.push_back(wish);
      }
      hosts.insert(each.member);
    }
    for (const auto& wish : wishes)
      send(decides->move(membership_time(), wish));
  }

  void tick() {
    if (decides && !is_done) {
      send(decides->tick(membership_time()));
      offer_shares();
    }
    timer.expires_after(tick_every);
    timer.async_wait([this](const auto& problem) {
      if (!problem)
        tick();
    });
  }

  const authority_server_options options;
  std::int32_t wanted_hosts;
  member_id next_member;
  io_loop loop;
  boost::asio::steady_timer timer;
  std::unique_ptr<acceptor> incoming;
  std::set<connection_pointer> unidentified;  // for who they are
  std::set<std::int32_t> first_lives;         // processes that were members
  std::set<member_id> offered;                // that were offered ranks
  membership_request first;
  std::unique_ptr<record_in_memory> store;
  std::unique_ptr<authority> decides;  // null: no process has come
  std::int64_t reported_epoch = 0;     // epoch
  bool is_done = false;                // the job: nothing is decided any more
  /// Guards what other threads ask for; all else is the loop's.
  mutable std::mutex mutex;
  std::map<member_id, membership_request> requests;   // those gone, too
  std::map<member_id, connection_pointer> processes;  // connected
  std::vector<member_id> members;                     // of the last epoch
  std::set<member_id> left;
  std::optional<std::string> stopped;
};

authority_server::authority_server(const endpoint& where,
                                   authority_server_options options)
  : impl_(std::make_unique<impl>(where, std::move(options))) {}

authority_server::~authority_server() = default;

bool authority_server::process_ended(std::int64_t pid) {
  bool goes_on = false;
  impl_->loop.run([&] {
    const auto member = impl_->member_of(pid);
    if (!member)
      return;
    if (const auto link = impl_->processes.find(*member);
        link != impl_->processes.end()) {
      const auto ends = link->second;
      impl_->lose(*member);
      ends->abort();
    }
    goes_on = !impl_->stopped;
  });
  return goes_on;
}

bool authority_server::has_begun() const {
  const std::scoped_lock lock(impl_->mutex);
  return !impl_->requests.empty() && !impl_->stopped;
}

bool authority_server::has_left(std::int64_t pid) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto member = impl_->member_of(pid);
  return member && impl_->left.contains(*member);
}

bool authority_server::has_part(std::int64_t pid) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto member = impl_->member_of(pid);
  return member && std::ranges::binary_search(impl_->members, *member);
}

}  // namespace troupe
