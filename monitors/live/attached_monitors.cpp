#include "troupe/monitors/live/attached_monitors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/monitors/http/http_site.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

using nlohmann::json;

/// What is encoded for clients costs the job processor time; and some places
/// are left for those who may detach the others' monitors.
constexpr std::size_t most_monitors = 64, most_of_watchers = 48;
constexpr std::size_t longest_spec = 4096;
constexpr std::size_t longest_plan = std::size_t{4} << 20;
/// The most requests to replan that wait: they run one after the other, each
/// for as long as a trial.
constexpr int most_replans = 8;
/// Bytes that a monitor of a client that only watches may hold.
constexpr auto held_by_watchers = std::int64_t{64} << 20;
constexpr int endpoint_version = 2;

/// The fields of a request's body, of which it may have no others.
json body_of(const http_request& request,
             const std::vector<std::string_view>& fields) {
  auto body = parse_json(request.body);
  require_known(body, request.method + " " + request.path, fields);
  return body;
}

std::string spec_in(const json& body) {
  auto spec = field<std::string>(body, "spec");
  if (std::ranges::any_of(spec, [](unsigned char c) { return c < ' '; }))
    fail(error_code::invalid_argument,
         "a spec must be one line without control characters, but is '{}'",
         printable(spec));
  if (spec.size() > longest_spec)
    fail(error_code::invalid_argument, "a spec has at most {} bytes",
         longest_spec);
  return spec;
}

}  // namespace

json subscription_in_query(const std::string& query) {
  const auto usual = json_of(subscription{});
  auto document = json::object();
  for (const auto& [name, value] : parse_query(query)) {
    const bool is_text = usual.contains(name) && usual[name].is_string();
    auto parsed = is_text ? json(value) : parsed_json(value, 1);
    document[name] = parsed.is_discarded() ? json(value) : std::move(parsed);
  }
  return document;
}

attached_monitors::attached_monitors(job_operations operations,
                                     const std::string& folder,
                                     std::function<void(std::int64_t)> left)
  : operations_(std::make_shared<const job_operations>(std::move(operations))),
    folder_(folder.empty() ? nullptr
                           : std::make_shared<const attach_folder>(folder)),
    left_(std::move(left)) {}

http_response attached_monitors::health() const {
  auto info = operations_->info();
  info["version"] = endpoint_version;
  info["server"] = server_;
  return json_response(info);
}

http_response attached_monitors::plan() const {
  auto text = operations_->plan ? operations_->plan() : std::string{};
  if (text.empty())
    throw refused_request(404, "the plan is not known here");
  if (text.size() > longest_plan)
    throw refused_request(
      503, fmt::format("the plan has {} bytes, and {} are served at most",
                       text.size(), longest_plan));
  return {.body = std::move(text)};
}

http_response attached_monitors::list() const {
  auto all = json::array();
  for (const auto& [id, each] : entries_)
    all.push_back({{"id", id}, {"spec", each.spec}, {"keep", each.keep}});
  return json_response(all);
}

http_response attached_monitors::ranks() const {
  if (!operations_->ranks)
    throw refused_request(404, "the hosting of ranks is not known here");
  return json_response(operations_->ranks());
}

http_response attached_monitors::rehost(const http_request& request) const {
  require_right(request.right, access_right::control, "to move its ranks");
  const auto body = body_of(request, {"rank", "process", "drain", "hosting"});
  if (!operations_->rehost)
    throw error(error_code::invalid_argument,
                "this job does not support moving ranks");
  return json_response(operations_->rehost(body));
}

std::function<http_response()> attached_monitors::detach(
  const http_request& request) {
  require_right(request.right, access_right::control, "to detach monitors");
  const auto name = request.path.substr(request.path.rfind('/') + 1);
  const auto id = parse_number<std::int64_t>(name);
  auto taken = id ? entries_.extract(*id) : decltype(entries_)::node_type{};
  if (!taken)
    throw refused_request(
      404, fmt::format("no monitor {} is attached over this endpoint",
                       printable(name)));
  return [operations = operations_, id, as = taken.mapped().attached_as] {
    operations->detach(as);
    return json_response({{"detached", *id}});
  };
}

/// A search may take its time.
std::function<http_response()> attached_monitors::replan(
  const http_request& request) const {
  require_right(request.right, access_right::control, "to replan it");
  const auto body = body_of(request, {"schedule", "text", "source", "search",
                                      "sizes", "memory_limit", "force"});
  if (!operations_->replan)
    throw error(error_code::invalid_argument,
                "this job does not support replanning");
  if (*replans_ >= most_replans)
    throw refused_request(
      503, fmt::format("{} requests to replan the job wait already; try again "
                       "later",
                       most_replans));
  // Counts until it was answered, or is dropped.
  const std::shared_ptr<void> counted(nullptr,
                                      [count = replans_](void*) { --*count; });
  ++*replans_;
  return [operations = operations_, body, counted] {
    return json_response(operations->replan(body));
  };
}

void attached_monitors::attach(const http_exchange_pointer& by) {
  const auto& request = by->request();
  const auto body = body_of(request, {"spec", "keep"});
  const auto spec = spec_in(body);
  const bool keep = has_flag(body, "keep");
  if (keep)
    require_right(request.right, access_right::control,
                  "to leave a monitor in it (--keep)");
  const monitor_client to{keep ? nullptr : by, log_, operations_->goes_on,
                          operations_->failure};
  std::string written;
  const auto id =
    add(request, {.spec = spec, .keep = keep}, to, [&](std::int64_t added) {
      const auto folder = [&] {
        written = folder_for(request, added, spec);
        return folder_->path_of(written);
      };
      return operations_->make(
        {.spec = spec,
         .sink = client_sink(to),
         .print = client_print(to, std::to_string(added)),
         .right = request.right,
         .folder = folder});
    });
  json first{{"type", "attached"}, {"id", id}};
  if (!written.empty())
    first["folder"] = folder_->display_path(written);
  if (keep)
    by->answer(json_response(first, 201));
  else
    stream(by, id, first);
}

void attached_monitors::stream_events(const http_exchange_pointer& by) {
  const auto& request = by->request();
  const auto wants = subscription_of(request.method == "GET"
                                       ? subscription_in_query(request.query)
                                       : parse_json(request.body));
  const monitor_client to{by, log_, operations_->goes_on, operations_->failure};
  const auto id = add(request, {.spec = "events"}, to,
                      [&](std::int64_t) { return event_stream(to, wants); });
  stream(by, id, {{"type", "attached"}, {"id", id}});
}

/// The first line goes before those that the monitor has written meanwhile.
void attached_monitors::stream(const http_exchange_pointer& to, std::int64_t id,
                               const json& first) const {
  to->answer({.type = "application/x-ndjson",
              .body = json_text(first) + "\n",
              .streams = true});
  to->when_left([left = left_, id] { left(id); });
}

std::string attached_monitors::folder_for(const http_request& request,
                                          std::int64_t id,
                                          const std::string& spec) const {
  require_right(request.right, access_right::control,
                "to attach a monitor that writes files");
  const auto name = spec.substr(0, spec.find(':'));
  if (!folder_)
    fail(error_code::invalid_argument,
         "monitor {} writes files, and this job was given no folder for those "
         "of attached monitors; start it with --attach-folder FOLDER",
         printable(name));
  return folder_->make(fmt::format("{}-{}", name, id));
}

std::int64_t attached_monitors::add(
  const http_request& request, entry added, const monitor_client& to,
  const std::function<monitor(std::int64_t)>& make) {
  require_room(request.right);
  const auto id = ++next_;
  const bool may_stop = includes(request.right, access_right::control);
  auto reporting = client_monitor(to, make(id), added.ended, may_stop);
  if (!may_stop) {
    reporting.limits.held_bytes =
      std::min(reporting.limits.held_bytes, held_by_watchers);
    reporting.wants.watches = false;  // which has steps run again
  }
  // It writes by the folder's descriptor, also once the endpoint is gone.
  reporting.finish = [folder = folder_, finish = std::move(reporting.finish)] {
    finish();
  };
  added.attached_as = operations_->attach(std::move(reporting));
  entries_.emplace(id, std::move(added));
  return id;
}

void attached_monitors::require_room(access_right right) const {
  const bool controls = includes(right, access_right::control);
  const auto most = controls ? most_monitors : most_of_watchers;
  if (entries_.size() >= most)
    throw refused_request(
      503,
      fmt::format("{} monitors and streams of events are attached already{}; "
                  "detach one",
                  most,
                  controls ? std::string{}
                           : fmt::format(" (the other {} places are for "
                                         "clients that may control the job)",
                                         most_monitors - most_of_watchers)));
}

std::function<void()> attached_monitors::take_where(
  const std::function<bool(const std::pair<const std::int64_t, entry>&)>&
    which) {
  std::map<std::int64_t, entry> taken;
  std::erase_if(entries_, [&](const auto& item) {
    return which(item) && taken.insert(item).second;
  });
  if (taken.empty())
    return {};
  return [operations = operations_, log = log_, taken = std::move(taken)] {
    for (const auto& [id, each] : taken) {
      const bool is_reported = each.ended->load();  // to the client
      try {
        operations->detach(each.attached_as);
      } catch (...) {
        if (!is_reported)
          log->warn(fmt::format("detaching monitor {} of the endpoint: {}", id,
                                thrown_text()));
      }
    }
  };
}

std::function<void()> attached_monitors::client_left(std::int64_t id) {
  return take_where([id](const auto& item) { return item.first == id; });
}

std::function<void()> attached_monitors::forget_ended() {
  return take_where([](const auto& item) { return item.second.ended->load(); });
}

std::function<void()> attached_monitors::detach_all() {
  return take_where([](const auto&) { return true; });
}

}  // namespace troupe
