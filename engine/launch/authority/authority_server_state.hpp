#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/authority/admission.hpp"
#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/authority/deciding_options.hpp"
#include "troupe/engine/launch/authority/lost_links.hpp"
#include "troupe/engine/launch/authority/newcomer_shares.hpp"
#include "troupe/engine/launch/authority/process_table.hpp"
#include "troupe/engine/launch/authority/record_in_memory.hpp"
#include "troupe/engine/launch/authority/waiting_text.hpp"
#include "troupe/engine/launch/authority/wished_moves.hpp"
#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/launch/waiting_news.hpp"
#include "troupe/engine/membership/authority.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/repeated_call.hpp"
#include "troupe/engine/transport/stream/acceptor.hpp"

namespace troupe {

/// The authority and its connections, on the thread of `loop`.
struct authority_server::impl {
  static constexpr std::chrono::milliseconds tick_every{100};
  static constexpr auto no_record_now = "the job's record can't be read now";
  using member_id = membership::member_id;

  impl(const endpoint& where, authority_server_options wanted)
    : options(std::move(wanted)),
      is_local(where.is_unix),
      waiting(options.news),
      ticks(loop, tick_every, [this] { tick(); }) {
    loop.run([&] {
      incoming = std::make_unique<acceptor>(
        loop.context().get_executor(), where, options.shown,
        acceptor::events{[this](stream_pointer stream) {
          admit(connection::make(loop, std::move(stream)));
        }});
    });
  }
  ~impl() {
    ticks.stop();
    loop.run([&] {
      incoming.reset();
      for (const auto& each : unidentified)
        each->abort();
      for (const auto& [member, link] : connected)
        link->abort();
    });
    loop.run([] {});  // their events are over
  }

  /// The first message of a process tells who it is.
  void admit(const connection_pointer& link) {
    unidentified.insert(link);
    const auto member = std::make_shared<member_id>(membership::no_member);
    connection_events handlers;
    handlers.arrived = [this, member, by = link.get()](const frame& what) {
      const auto message = read_membership(what);
      if (*member != membership::no_member)
        return take(*member, message);
      const auto* about = std::get_if<membership_request>(&message);
      if (about == nullptr)
        fail(error_code::transport, "a process did not say who it is");
      *member = add(*about, by->shared_from_this());
    };
    handlers.lost = [this, member, by = link.get()](const std::string& why) {
      unidentified.erase(by->shared_from_this());
      const auto current = connected.find(*member);
      if (current == connected.end() || current->second.get() != by)
        return;
      if (why.empty())
        note_goodbye(*member);
      disconnect(*member);
      if (is_local || why.empty())
        return lose(*member);
      gone.note(*member);
    };
    link->start(std::move(handlers));
  }

  member_id add(const membership_request& about, connection_pointer link) {
    auto reason = objection_to_process(about, all_of(decides ? first : about),
                                       decides ? &first : nullptr);
    if (reason.empty() && !decides)
      reason = begin_job(about);
    unidentified.erase(link);
    if (!reason.empty()) {
      const bool is_early =
        !decides && (about.process < 0 || reason == no_record_now);
      link->send(to_frame(membership_refusal{reason, is_early}));
      link->close();
      return membership::no_member;
    }
    const std::scoped_lock lock(mutex);
    if (const auto twice = table->doubled(about, is_connected);
        !twice.empty() && options.news)
      options.news(twice);
    const auto member = table->add(about);
    gone.forget(member);
    link->send(to_frame(membership_welcome{
      member, options.job, table->predecessor_of(member, members),
      options.policy.failed_op.action != membership::remedy::stop}));
    if (meeting.epoch == decides->record().epoch.number)
      link->send(to_frame(meeting));
    if (const auto other = std::exchange(connected[member], link))
      other->abort();
    if (is_done && !is_member(member))
      dismiss(member, link);
    return member;
  }

  bool is_member(member_id which) const {
    return std::ranges::binary_search(members, which);
  }

  /// With the lock: the job is done without it.
  void dismiss(member_id which, const connection_pointer& link) {
    table->leave(which);
    link->send(to_frame(
      membership::authority_order{.member = which,
                                  .kind = membership::order_kind::leave,
                                  .reason = "the job is done"}));
  }

  std::int32_t all_of(const membership_request& about) const {
    return options.processes == 0 ? about.processes
                                  : options.processes + options.spares;
  }

  /// Returns why it can't begin, or can't be gone on with, by this process.
  std::string begin_job(const membership_request& about) {
    auto all = all_of(about);
    membership::job_record record;
    record.epoch.hosting.assign(about.hosting.begin(), about.hosting.end());
    auto kept = options.make_store ? options.make_store(record)
                                   : std::make_unique<record_in_memory>(record);
    const auto found = kept->read();
    if (!found)
      return no_record_now;
    const bool is_resumed = found->revision > 0;
    if (!is_resumed && about.process < 0)
      return "the job has not begun";
    if (auto reason = is_resumed ? objection_to_record(about, *found)
                                 : objection_to_hosting(about, all);
        !reason.empty())
      return reason;
    all = std::max(all, static_cast<std::int32_t>(found->epoch.members.size()));
    first = about;
    store = std::move(kept);
    {
      const std::scoped_lock lock(mutex);
      table.emplace(all, is_resumed);
      members = found->epoch.members;
    }
    reported_epoch = found->epoch.number;
    decides.emplace(deciding_options(options, about.shape, all), *store);
    for (int i = 0; i < 2; ++i)  // which it needs to take over
      send(decides->tick(membership_time()));
    return {};
  }

  void take(member_id member, const membership_message& message) {
    if (is_done)
      return;
    if (const auto* report = std::get_if<membership::member_report>(&message)) {
      if (report->member == member)
        send(decides->receive(membership_time(), *report));
    } else if (const auto* wish = std::get_if<hosting_request>(&message)) {
      for (const auto& move : wished_moves(*wish, decides->record().epoch))
        send(decides->move(membership_time(), move));
    } else if (const auto* place = std::get_if<epoch_meeting>(&message)) {
      note(member, *place);
    } else {
      fail(error_code::transport, "that message is the authority's");
    }
  }

  /// The first member of an epoch tells the others where all meet.
  void note(member_id from, const epoch_meeting& place) {
    const auto& now = decides->record().epoch;
    if (place.epoch != now.number || now.members.empty()
        || from != now.members.front())
      return;
    meeting = place;
    for (const auto other : now.members)
      if (const auto to = connected.find(other);
          other != from && to != connected.end())
        to->second->send(to_frame(meeting));
  }

  /// A member that says goodbye without having been told to leave knows that
  /// the job is done.
  void note_goodbye(member_id member) {
    if (is_done || table->has_left(member) || !is_member(member))
      return;
    const std::scoped_lock lock(mutex);
    is_done = true;
    for (const auto& [other, link] : connected)
      if (!is_member(other))
        dismiss(other, link);
  }

  connection_pointer disconnect(member_id member) {
    const std::scoped_lock lock(mutex);
    auto node = connected.extract(member);
    return node ? std::move(node.mapped()) : nullptr;
  }

  /// Whether the job goes on if that member has ended.
  bool allows_end_of(member_id member) const {
    return is_done || table->has_left(member)
           || decides->allows_loss_of(membership_time(), member);
  }

  void lose(member_id member) {
    if (!is_member(member) && decides->is_leaving(member)) {
      const std::scoped_lock lock(mutex);
      table->leave(member);
    }
    gone.end(member, !is_done && !table->has_left(member));
    table->end(member);
    if (!is_done)
      send(decides->member_ended(membership_time(), member));
  }

  void send(const membership::authority_output& out) {
    note_epoch();
    for (const auto member : out.restarts)
      give_up(member);
    for (const auto& order : out.orders) {
      if (order.kind == membership::order_kind::leave) {
        const std::scoped_lock lock(mutex);
        table->leave(order.member);
      }
      if (const auto to = connected.find(order.member); to != connected.end())
        to->second->send(to_frame(order));
    }
  }

  void give_up(member_id member) {
    if (!connected.contains(member) || table->has_left(member))
      return;
    gone.end(member, true);
    if (options.given_up)
      options.given_up(table->pid_of(member));
  }

  void note_epoch() {
    const auto& record = decides->record();
    const auto& next = record.epoch;
    if (std::exchange(reported_epoch, next.number) != next.number
        && next.number > 1 && options.news)
      options.news(table->news_of(members, next));
    for (const auto& [member, link] : connected)
      if (is_member(member)
          && !std::ranges::binary_search(next.members, member))
        give_up(member);
    const std::scoped_lock lock(mutex);
    members = next.members;
    is_deposed = decides->phase() == membership::authority_phase::deposed;
    if (!record.stop_reason.empty())
      stopped = record.stop_reason;
    else if (!next.ends.empty())  // as far as the launcher is concerned
      stopped = next.ends;
  }

  void offer_shares() {
    if (decides->phase() != membership::authority_phase::running)
      return;
    for (const auto& wish : shares.offer(*decides, *table, options.spares))
      send(decides->move(membership_time(), wish));
  }

  void tick() {
    for (const auto member : gone.overdue())
      lose(member);
    if (decides && !is_done) {
      send(decides->tick(membership_time()));
      offer_shares();
      waiting.tell(waiting_text(*decides, *table, is_connected));
    }
  }

  std::optional<member_id> member_of(std::int64_t pid) const {
    return table ? table->member_of(pid) : std::nullopt;
  }

  authority_state state() const {
    if (!table)
      return authority_state::waiting;
    if (is_deposed)
      return authority_state::deposed;
    if (!connected.empty() || !(is_done || stopped)
        || (!stopped && gone.has_lost_within(options.lingers)))
      return authority_state::deciding;
    return stopped ? authority_state::stopped : authority_state::done;
  }

  const authority_server_options options;
  const bool is_local;  // all processes are on this machine
  io_loop loop;
  std::unique_ptr<acceptor> incoming;
  std::set<connection_pointer> unidentified;  // for who they are
  newcomer_shares shares;
  lost_links gone;
  waiting_news waiting;
  membership_request first;
  std::unique_ptr<membership::record_store> store;
  std::optional<membership::authority> decides;  // none: no process has come
  std::int64_t reported_epoch = 0;               // epoch
  epoch_meeting meeting;                         // the last one
  /// Guards what other threads ask for; all else is the loop's.
  mutable std::mutex mutex;
  std::optional<process_table> table;  // of those who have come
  std::map<member_id, connection_pointer> connected;
  const std::function<bool(member_id)> is_connected = [this](member_id which) {
    return connected.contains(which);
  };
  std::vector<member_id> members;  // of the last epoch
  std::optional<std::string> stopped;
  bool is_done = false;  // the job: nothing is decided any more
  bool is_deposed = false;
  repeated_call ticks;  // of all this, so it comes last
};

}  // namespace troupe
