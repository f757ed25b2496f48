#include "troupe/monitors/dashboard/dashboard_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "troupe/actors/step/run_health.hpp"
#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/monitors/dashboard/dashboard_data.hpp"
#include "troupe/monitors/http/http_server.hpp"
#include "troupe/monitors/http/http_site.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

// A page asks each second, and gives up after some that failed.
constexpr auto page_is_open = std::chrono::seconds(5);
constexpr auto patience = std::chrono::seconds(3);
constexpr std::size_t most_pages = 256;

struct state_request {
  std::int64_t revision = 0;
  std::string page{};
};

/// `/state`, `/state/117` or `/state/117/NAME`.
std::optional<state_request> state_request_in(const std::string& path) {
  constexpr std::string_view state = "/state";
  if (path == state)
    return state_request{};
  if (!path.starts_with("/state/"))
    return {};
  const auto text = std::string_view(path).substr(state.size() + 1);
  const auto slash = std::min(text.find('/'), text.size());
  const auto revision = parse_number<std::int64_t>(text.substr(0, slash));
  if (!revision || *revision < 0)
    return {};
  return state_request{*revision, std::string(text.substr(slash))};
}

/// The page as a file, with its state inside; no text in it can end the
/// element.
std::string page_with(const nlohmann::json& state) {
  std::string text;
  for (const auto c : json_text(state))
    text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  std::string page(dashboard_page());
  const auto at = page.find("<noscript>");
  page.insert(at, "<script type=\"application/json\" id=\"saved-state\">" + text
                    + "</script>\n");
  return page;
}

}  // namespace

class dashboard_server::impl {
 public:
  impl(dashboard_subject subject, const dashboard_options& options)
    : statistics_every_(subject.statistics_every),
      data_(std::make_shared<dashboard_data>(std::move(subject))),
      save_(options.save),
      site_(options.site ? options.site : std::make_shared<http_site>()),
      served_(site_->add(resources())),
      server_({.address = options.address,
               .page_token = options.token,
               .for_browsers = true},
              site_) {}
  ~impl();

  std::vector<monitor> monitors() const;
  const std::shared_ptr<dashboard_data>& data() const { return data_; }
  const http_server& server() const { return server_; }

 private:
  /// A page that has asked for the state.
  struct open_page {
    clock::time_point asked{};
    bool knows_the_end = false;
  };

  http_response answer(const std::string& path);
  std::vector<http_resource> resources();
  void note(const std::string& page, bool is_over);
  bool all_know_the_end() const;
  void save() const;

  const std::int64_t statistics_every_;
  const std::shared_ptr<dashboard_data> data_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, open_page> pages_;  // by the name that each chose
  const std::string save_;
  // The last ones: their threads use the others.
  const http_site_pointer site_;
  const std::shared_ptr<void> served_;
  http_server server_;
};

dashboard_server::dashboard_server(dashboard_subject subject,
                                   const dashboard_options& options)
  : impl_(std::make_unique<impl>(std::move(subject), options)) {}

std::vector<http_resource> dashboard_server::impl::resources() {
  const auto answers = at_once(
    [this](const http_request& request) { return answer(request.path); });
  std::vector<http_resource> all;
  for (const auto* path : {"/", "/state", "/state/*"})
    all.push_back({"GET", path, access_right::page, answers});
  return all;
}

dashboard_server::~dashboard_server() = default;

dashboard_server::impl::~impl() {
  data_->end();
  save();
  const auto until = clock::now() + patience;
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, until, [&] { return all_know_the_end(); })
      || pages_.empty())
    return;
  lock.unlock();
  while (server_.connections() > 0 && clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

void dashboard_server::impl::save() const {
  if (save_.empty())
    return;
  try {
    write_file_atomically(save_, page_with(data_->since(0)));
  } catch (const error& reason) {
    log()->error("the dashboard's page is not saved: {}", reason.what());
  }
}

bool dashboard_server::impl::all_know_the_end() const {
  return std::ranges::all_of(pages_, [now = clock::now()](const auto& each) {
    return each.second.knows_the_end || now - each.second.asked > page_is_open;
  });
}

void dashboard_server::impl::note(const std::string& page, bool is_over) {
  const std::scoped_lock lock(mutex_);
  if (pages_.size() >= most_pages && !pages_.contains(page))
    pages_.erase(std::ranges::min_element(
      pages_, {}, [](const auto& each) { return each.second.asked; }));
  pages_[page] = {clock::now(), is_over};
}

http_response dashboard_server::impl::answer(const std::string& path) {
  if (path == "/")
    return page_response(dashboard_page());
  const auto request = state_request_in(path);
  if (!request)
    throw refused_request(404, "the page is at /");
  const auto state = data_->since(request->revision);
  note(request->page, state.at("over").get<bool>());
  changed_.notify_all();
  return json_response(state);
}

std::vector<monitor> dashboard_server::impl::monitors() const {
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

std::vector<monitor> dashboard_server::monitors() const {
  return impl_->monitors();
}

sink_pointer dashboard_server::sink() const {
  const auto add = [data = impl_->data()](const auto& what) {
    data->add(what);
  };
  return callback_sink(add, add);
}

void dashboard_server::add_warning(const char* kind, const std::string& text) {
  impl_->data()->add_warning(kind, text);
}

std::string dashboard_server::url() const {
  return fmt::format("http://{}/", impl_->server().address());
}

std::size_t dashboard_server::connections() const {
  return impl_->server().connections();
}

}  // namespace troupe
