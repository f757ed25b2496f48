#include "troupe/monitors/live/monitor_desk.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/subscription_json.hpp"
#include "troupe/monitors/live/told_monitor.hpp"
#include "troupe/schedules/printable.hpp"

namespace troupe {

namespace {

using nlohmann::json;

constexpr std::ptrdiff_t monitors_of_a_client = 16;
constexpr std::size_t monitors_in_all = 64;
constexpr std::size_t longest_spec = 4096;
constexpr std::size_t longest_plan = std::size_t{900} << 10;

}  // namespace

json monitor_desk::answer(std::int64_t client, const outbox_pointer& to,
                          const json& request) {
  try {
    return dispatch(client, to, request);
  } catch (const error& reason) {
    return {{"error", reason.what()}, {"usage", exit_code(reason.code()) == 2}};
  } catch (const std::exception& reason) {
    return {{"error", reason.what()}, {"usage", false}};
  }
}

json monitor_desk::dispatch(std::int64_t client, const outbox_pointer& to,
                            const json& request) {
  const auto wanted = text_of(request, "do");
  if (wanted == "attach")
    return attach(client, to, request);
  if (wanted == "events")
    return watch(client, to, request);
  if (wanted == "list")
    return list(client);
  if (wanted == "info")
    return powers_.info();
  if (wanted == "plan")
    return plan();
  if (wanted != "detach")
    fail(error_code::invalid_argument,
         "'{}' is no request; there are attach, detach, list, events, info "
         "and plan",
         printable(wanted));
  detach(whole_of<std::int64_t>(field_of(request, "id"), "id"));
  return json::object();
}

json monitor_desk::attach(std::int64_t client, const outbox_pointer& to,
                          const json& request) {
  const auto spec = text_of(request, "spec");
  const bool keep = request.contains("keep") && flag_of(request, "keep");
  if (spec.size() > longest_spec)
    fail(error_code::invalid_argument, "a spec has at most {} bytes",
         longest_spec);
  require_room(client);
  const auto id = ++next_;
  auto made =
    powers_.make(spec, told_sink(id, to, keep), told_print(id, to, keep));
  const auto attached_as =
    powers_.attach(told_monitor(id, std::move(made), to));
  entries_.emplace(id, entry{client, attached_as, spec, keep});
  return {{"id", id}};
}

json monitor_desk::watch(std::int64_t client, const outbox_pointer& to,
                         const json& request) {
  const auto wants = subscription_of(field_of(request, "subscription"));
  require_room(client);
  const auto id = ++next_;
  const auto attached_as =
    powers_.attach(told_monitor(id, event_stream(id, wants, to), to));
  entries_.emplace(id, entry{client, attached_as, "events", false});
  return {{"id", id}};
}

json monitor_desk::plan() const {
  const auto text = powers_.plan ? powers_.plan() : std::string{};
  if (text.empty() || text.size() > longest_plan)
    fail(error_code::io, "the plan is {}",
         text.empty() ? "not known here" : "too long for the endpoint");
  return {{"plan", text}};
}

json monitor_desk::list(std::int64_t client) const {
  auto all = json::array();
  for (const auto& [id, each] : entries_)
    all.push_back({{"id", id},
                   {"spec", each.spec},
                   {"keep", each.keep},
                   {"yours", each.client == client}});
  return {{"monitors", std::move(all)}};
}

void monitor_desk::require_room(std::int64_t client) const {
  const auto own = std::ranges::count_if(entries_, [&](const auto& item) {
    return item.second.client == client && !item.second.keep;
  });
  if (own >= monitors_of_a_client || entries_.size() >= monitors_in_all)
    fail(error_code::invalid_argument,
         "a client may attach {} monitors, and all together {}; detach one",
         monitors_of_a_client, monitors_in_all);
}

void monitor_desk::detach(std::int64_t id) {
  const auto found = entries_.extract(id);
  if (found.empty())
    fail(error_code::invalid_argument,
         "no monitor {} is attached over this endpoint", id);
  powers_.detach(found.mapped().attached_as);
}

void monitor_desk::detach_where(
  const std::function<bool(const entry&)>& which) {
  std::vector<std::int64_t> ids;
  for (const auto& [id, each] : entries_)
    if (which(each))
      ids.push_back(id);
  for (const auto id : ids) {
    try {
      detach(id);
    } catch (const std::exception& reason) {
      spdlog::warn("detaching monitor {} of the endpoint: {}", id,
                   reason.what());
    }
  }
}

void monitor_desk::client_left(std::int64_t client) {
  detach_where([client](const entry& each) {
    return each.client == client && !each.keep;
  });
}

void monitor_desk::detach_all() {
  detach_where([](const entry&) { return true; });
}

}  // namespace troupe
