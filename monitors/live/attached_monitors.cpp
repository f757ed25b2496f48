#include "troupe/monitors/live/attached_monitors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>
#include <vector>

#include "troupe/base/printable.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

using nlohmann::json;

/// What is encoded for clients costs the job processor time; and some places
/// are left for those who may detach the others' monitors.
struct allowance {
  std::ptrdiff_t of_a_client;
  std::size_t in_all;
};
constexpr allowance allowed_for(access_right right) {
  return right == access_right::control ? allowance{16, 64} : allowance{4, 48};
}
constexpr std::size_t longest_spec = 4096;
constexpr std::size_t longest_plan = std::size_t{900} << 10;

/// Requests by name, with their fields.
const std::map<std::string, std::vector<std::string_view>>& known_requests() {
  static const std::map<std::string, std::vector<std::string_view>> known{
    {"attach", {"do", "spec", "keep"}},
    {"detach", {"do", "id"}},
    {"list", {"do"}},
    {"events", {"do", "subscription"}},
    {"info", {"do"}},
    {"plan", {"do"}},
    {"replan",
     {"do", "schedule", "text", "source", "search", "sizes", "memory_limit",
      "force"}}};
  return known;
}

/// What the request is to do. Throws for an unknown request or field.
std::string checked_request(const json& request) {
  auto wanted = field<std::string>(request, "do");
  const auto& all = known_requests();
  const auto known = all.find(wanted);
  if (known == all.end())
    fail(error_code::invalid_argument,
         "unknown request '{}'; known requests are {}", printable(wanted),
         fmt::join(std::views::keys(all), ", "));
  require_known(request, fmt::format("the request '{}'", wanted),
                known->second);
  return wanted;
}

template <class Make>
json answer_of(const Make& make) {
  try {
    return make();
  } catch (const error& reason) {
    return {{"error", reason.what()}, {"usage", exit_code(reason.code()) == 2}};
  } catch (...) {
    return {{"error", thrown_text()}, {"usage", false}};
  }
}

/// One after the other, each for as long as a trial: who asks keeps a place.
constexpr int most_replans = 8;
/// Bytes that a monitor of a client that only watches may hold.
constexpr auto held_by_watchers = std::int64_t{64} << 20;

}  // namespace

attached_monitors::attached_monitors(job_operations operations,
                                     const std::string& folder)
  : operations_(std::make_shared<const job_operations>(std::move(operations))),
    folder_(folder.empty() ? nullptr
                           : std::make_shared<const attach_folder>(folder)),
    log_(std::make_shared<limited_log>()),
    replans_(std::make_shared<std::atomic<int>>(0)) {}

request_reply attached_monitors::answer(const requesting_client& who,
                                        const json& request) {
  auto tidy = take_where([](const entry& each) { return each.ended->load(); });
  request_reply reply;
  reply.answer = answer_of([&]() -> json {
    const auto wanted = checked_request(request);
    if (wanted == "attach")
      return attach(who, request);
    if (wanted == "events")
      return watch(who, request);
    if (wanted == "list")
      return list(who.id);
    if (wanted == "info")
      return operations_->info();
    if (wanted == "plan")
      return plan();
    reply = wanted == "detach" ? detach(who, request) : replan(who, request);
    return {};
  });
  reply.tidy = std::move(tidy);
  return reply;
}

request_reply attached_monitors::detach(const requesting_client& who,
                                        const json& request) {
  const auto id = field<std::int64_t>(request, "id");
  const auto known = entries_.find(id);
  if (known == entries_.end())
    fail(error_code::invalid_argument,
         "no monitor {} is attached over this endpoint", id);
  if (known->second.client != who.id)
    require_right(who.right, access_right::control,
                  "to detach another client's monitor");
  const auto found = entries_.extract(known);
  request_reply reply;
  reply.slow = [operations = operations_, as = found.mapped().attached_as] {
    return answer_of([&] {
      operations->detach(as);
      return json::object();
    });
  };
  return reply;
}

/// A search may take its time.
request_reply attached_monitors::replan(const requesting_client& who,
                                        const json& request) const {
  require_right(who.right, access_right::control, "to replan it");
  if (!operations_->replan)
    throw error(error_code::invalid_argument,
                "this job does not support replanning");
  if (*replans_ >= most_replans)
    fail(error_code::transport,
         "{} requests to replan the job wait already; try again later",
         most_replans);
  // Counts until it was answered, or is dropped.
  const std::shared_ptr<void> counted(nullptr,
                                      [count = replans_](void*) { --*count; });
  ++*replans_;
  request_reply reply;
  reply.searches = true;
  reply.slow = [operations = operations_, request, counted] {
    return answer_of([&] { return operations->replan(request); });
  };
  return reply;
}

json attached_monitors::attach(const requesting_client& who,
                               const json& request) {
  const auto spec = field<std::string>(request, "spec");
  if (std::ranges::any_of(spec, [](unsigned char c) { return c < ' '; }))
    fail(error_code::invalid_argument,
         "a spec is one line without control characters, and not '{}'",
         printable(spec));
  const bool keep = has_flag(request, "keep");
  if (spec.size() > longest_spec)
    fail(error_code::invalid_argument, "a spec has at most {} bytes",
         longest_spec);
  if (keep)
    require_right(who.right, access_right::control,
                  "to leave a monitor in it (--keep)");
  std::string written;
  auto answer = add(who, {.client = who.id, .spec = spec, .keep = keep},
                    [&](const monitor_client& to) {
                      const auto folder = [&] {
                        written = folder_for(who, to.id, spec);
                        return folder_->path_of(written);
                      };
                      return operations_->make({.spec = spec,
                                                .sink = told_sink(to, keep),
                                                .print = told_print(to, keep),
                                                .right = who.right,
                                                .folder = folder});
                    });
  if (!written.empty())
    answer["folder"] = folder_->shown(written);
  return answer;
}

std::string attached_monitors::folder_for(const requesting_client& who,
                                          std::int64_t id,
                                          const std::string& spec) const {
  require_right(who.right, access_right::control,
                "to attach a monitor that writes files");
  if (!folder_)
    fail(error_code::invalid_argument,
         "monitor {} writes files, and this job was given no folder for those "
         "of attached monitors; start it with --attach-folder FOLDER",
         printable(spec.substr(0, spec.find(':'))));
  return folder_->make(
    fmt::format("{}-{}", spec.substr(0, spec.find(':')), id));
}

json attached_monitors::watch(const requesting_client& who,
                              const json& request) {
  const auto wants = subscription_of(field_of(request, "subscription"));
  return add(who, {.client = who.id, .spec = "events"},
             [&](const monitor_client& to) { return event_stream(to, wants); });
}

json attached_monitors::add(
  const requesting_client& who, entry added,
  const std::function<monitor(const monitor_client&)>& make) {
  require_room(who);
  const monitor_client to{++next_, who.outbox, log_};
  added.ended = std::make_shared<std::atomic<bool>>(false);
  const bool may_stop = includes(who.right, access_right::control);
  auto told = told_monitor(to, make(to), added.ended, may_stop);
  if (!may_stop)
    told.limits.held_bytes = std::min(told.limits.held_bytes, held_by_watchers);
  // It writes by the folder's descriptor, also once the endpoint is gone.
  told.finish = [folder = folder_, finish = std::move(told.finish)] {
    finish();
  };
  added.attached_as = operations_->attach(std::move(told));
  entries_.emplace(to.id, std::move(added));
  return {{"id", to.id}};
}

json attached_monitors::plan() const {
  const auto text = operations_->plan ? operations_->plan() : std::string{};
  if (text.empty() || text.size() > longest_plan)
    fail(error_code::io, "the plan is {}",
         text.empty() ? "not known here" : "too long for the endpoint");
  return {{"plan", text}};
}

json attached_monitors::list(std::int64_t client) const {
  auto all = json::array();
  for (const auto& [id, each] : entries_)
    all.push_back({{"id", id},
                   {"spec", each.spec},
                   {"keep", each.keep},
                   {"yours", each.client == client}});
  return {{"monitors", std::move(all)}};
}

void attached_monitors::require_room(const requesting_client& who) const {
  const auto own = std::ranges::count_if(entries_, [&](const auto& item) {
    return item.second.client == who.id && !item.second.keep;
  });
  const auto [of_a_client, in_all] = allowed_for(who.right);
  if (own >= of_a_client || entries_.size() >= in_all)
    fail(error_code::invalid_argument,
         "a client that may {} may attach {} monitors, until {} are attached "
         "by all clients{}; detach one",
         who.right == access_right::control ? "control the job" : "only watch",
         of_a_client, in_all,
         who.right == access_right::control
           ? ""
           : " (the other 16 places are for those that may control the job)");
}

std::function<void()> attached_monitors::take_where(
  const std::function<bool(const entry&)>& which) {
  std::map<std::int64_t, entry> taken;
  std::erase_if(entries_, [&](const auto& item) {
    return which(item.second) && taken.insert(item).second;
  });
  if (taken.empty())
    return {};
  return [operations = operations_, log = log_, taken = std::move(taken)] {
    for (const auto& [id, each] : taken) {
      const bool was_told = each.ended->load();  // the client
      try {
        operations->detach(each.attached_as);
      } catch (...) {
        if (!was_told)
          log->warn(fmt::format("detaching monitor {} of the endpoint: {}", id,
                                thrown_text()));
      }
    }
  };
}

std::function<void()> attached_monitors::client_left(std::int64_t client) {
  return take_where([client](const entry& each) {
    return each.client == client && !each.keep;
  });
}

std::function<void()> attached_monitors::detach_all() {
  return take_where([](const entry&) { return true; });
}

}  // namespace troupe
