#include "troupe/monitors/dashboard/dashboard.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "troupe/base/json.hpp"
#include "troupe/base/parse_number.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

// A page asks each second, and gives up after some that failed.
constexpr auto page_is_open = std::chrono::seconds(3);
constexpr auto patience = std::chrono::milliseconds(1500);

/// `/state` or `/state/117`.
std::optional<std::int64_t> revision_in(const std::string& path) {
  constexpr std::string_view state = "/state";
  if (path == state)
    return 0;
  if (!path.starts_with("/state/"))
    return {};
  const auto revision =
    parse_number<std::int64_t>(std::string_view(path).substr(state.size() + 1));
  return revision && *revision >= 0 ? revision : std::nullopt;
}

}  // namespace

dashboard::dashboard(dashboard_subject subject,
                     const dashboard_options& options)
  : statistics_every_(subject.statistics_every),
    data_(std::make_shared<dashboard_data>(std::move(subject))),
    server_({.address = options.address,
             .token = options.token,
             .for_browsers = true},
            [this](const std::string& path) { return answer(path); }) {}

dashboard::~dashboard() {
  data_->end();
  const auto until = clock::now() + patience;
  std::unique_lock lock(mutex_);
  if (!asked_ || clock::now() - *asked_ > page_is_open)
    return;
  changed_.wait_until(lock, until, [&] { return told_the_end_; });
  lock.unlock();
  while (server_.connections() > 0 && clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

http_response dashboard::answer(const std::string& path) {
  if (path == "/")
    return page_response(dashboard_page());
  const auto revision = revision_in(path);
  if (!revision)
    return {404, "text/plain", "the page is at /\n"};
  const auto state = data_->since(*revision);
  {
    const std::scoped_lock lock(mutex_);
    asked_ = clock::now();
    told_the_end_ = told_the_end_ || state.at("over").get<bool>();
  }
  changed_.notify_all();
  return {200, "application/json", json_text(state)};
}

std::vector<monitor> dashboard::monitors() const {
  monitor steps;
  steps.name = "dashboard";
  steps.wants.ops = true;
  steps.see = [data = data_](const event& what) { data->see(what); };
  steps.finish = [data = data_] { data->end(); };
  monitor tensors;
  tensors.name = "dashboard statistics";
  tensors.wants.warnings = false;
  tensors.wants.tensors =
    tensor_kind::activation | tensor_kind::activation_gradient;
  tensors.wants.every = statistics_every_;
  tensors.see = [data = data_](const event& what) { data->see_tensors(what); };
  return {std::move(steps), std::move(tensors)};
}

sink_pointer dashboard::sink() const {
  const auto add = [data = data_](const auto& what) { data->add(what); };
  return callback_sink(add, add);
}

std::string dashboard::url() const {
  return fmt::format("http://{}/", server_.address());
}

}  // namespace troupe
