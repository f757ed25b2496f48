// What clients may do, by their token.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "../../files.hpp"
#include "../../says.hpp"
#include "faked_job.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const access_tokens tokens{.watch = "a-token-to-watch-with",
                           .control = "a-token-to-control-with"};

/// Makes the monitors of the specs of `train`.
monitor make_real(const wanted_monitor& request) {
  monitor_context context;
  context.sink = request.sink;
  context.print = request.print;
  context.folder = request.folder;
  context.observe_every = [](std::int64_t) {};
  return make_monitor(request.spec, context);
}

struct guarded_job {
  explicit guarded_job(const std::string& attach_folder = {},
                       decltype(job_operations::make) make = make_real) {
    job_server_options options;
    options.tokens = tokens;
    options.attach_folder = attach_folder;
    options.operations = job.operations();
    options.operations.make = std::move(make);
    options.operations.replan = [](const nlohmann::json&) {
      return nlohmann::json{{"taken", true}};
    };
    server =
      std::make_unique<job_server>("tcp:127.0.0.1:0", std::move(options));
  }
  live_client client(const std::string& token) const {
    return live_client(server->where(), token);
  }

  faked_job job;
  std::unique_ptr<job_server> server;
};

void check_denied(live_client& client, const std::string& method,
                  const std::string& path,
                  const nlohmann::json& body = nullptr) {
  INFO(method << " " << path << " " << body);
  CHECK_THROWS_MATCHES(
    client.request(method, path, body), error,
    says("may watch the job but not control it") && says("--token-file"));
}

event failed_run() {
  failure_event result;
  result.reason = "it failed";
  return result;
}

std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
    paths.push_back(std::filesystem::relative(each.path(), folder));
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

TEST_CASE("the token to watch allows what changes and writes nothing") {
  const guarded_job at;
  auto watcher = at.client(tokens.watch);
  CHECK(watcher.health().is_object());
  watcher.watch({});
  {
    auto leaving = at.client(tokens.watch);
    leaving.attach("stability");
    CHECK(watcher.request("GET", "/monitors").size() == 2);
  }
  CHECK(
    becomes([&] { return watcher.request("GET", "/monitors").size() == 1; }));
  check_denied(watcher, "POST", "/replan", {{"schedule", "1f1b"}});
  check_denied(watcher, "POST", "/monitors",
               {{"spec", "stability"}, {"keep", true}});
  for (const auto* spec : {"timeline:svg=true", "retro", "gradient_dump"})
    check_denied(watcher, "POST", "/monitors", {{"spec", spec}});
  auto controller = at.client(tokens.control);
  const std::int64_t others = controller.attach("stability");
  check_denied(watcher, "DELETE", "/monitors/" + std::to_string(others));
  CHECK(watcher.request("GET", "/monitors").size() == 2);
}

TEST_CASE("the token to control allows all that clients can ask for") {
  const guarded_job at;
  auto watcher = at.client(tokens.watch);
  auto controller = at.client(tokens.control);
  controller.detach(watcher.attach("stability"));
  controller.attach("stability", true);
  CHECK(controller.request("POST", "/replan", {{"schedule", "1f1b"}})["taken"]
        == true);
}

TEST_CASE("a token to watch has no step run again") {
  const guarded_job at;
  auto watcher = at.client(tokens.watch);
  watcher.attach("overflow");
  CHECK(at.job.watching() == 0);
  auto controller = at.client(tokens.control);
  controller.attach("overflow");
  CHECK(at.job.watching() == 1);
  CHECK(at.job.attached() == 2);
}

TEST_CASE("watchers leave monitors for those who may control the job") {
  const guarded_job at;
  auto watcher = at.client(tokens.watch);
  for (int i = 0; i < 48; ++i)
    watcher.watch({});
  CHECK_THROWS_MATCHES(watcher.watch({}), error,
                       says("48 monitors and streams of events are attached "
                            "already (the other 16 places are for clients "
                            "that may control the job)"));
  auto controller = at.client(tokens.control);
  for (int i = 0; i < 16; ++i)
    controller.watch({});
  CHECK_THROWS_MATCHES(controller.watch({}), error,
                       says("64 monitors and streams of events are attached "
                            "already; detach one"));
  at.client(tokens.control);  // and other clients still learn the job's state
}

TEST_CASE("a spec is one line without control characters") {
  const guarded_job at;
  auto client = at.client(tokens.watch);
  for (const std::string spec : {"stability\n1 gap", "\033[2J"})
    CHECK_THROWS_MATCHES(client.attach(spec), error, says("one line"));
  CHECK_THROWS_MATCHES(client.attach(std::string("gap\0x", 5)), error,
                       says("gap\\x00x'"));
}

TEST_CASE("requests to replan wait in a bounded number") {
  std::atomic<bool> may_end = false;
  faked_job job;
  const temporary_folder folder;
  job_server_options options;
  options.operations = job.operations();
  options.operations.replan = [&](const nlohmann::json&) {
    while (!may_end)
      std::this_thread::yield();
    return nlohmann::json::object();
  };
  job_server server("unix:" + (folder / "s"), std::move(options));
  std::vector<std::unique_ptr<stranger>> asking;
  for (int i = 0; i < 8; ++i) {
    asking.push_back(std::make_unique<stranger>(server.where()));
    asking.back()->say(request_text("POST", "/replan", "{}"));
  }
  live_client client(server.where());
  const auto refused = [&] {
    try {
      client.request("POST", "/replan", nlohmann::json::object());
    } catch (const error& why) {
      return std::string(why.what()).find("8 requests to replan")
             != std::string::npos;
    }
    return false;
  };
  // Earlier ones may still be in flight.
  REQUIRE(
    becomes([&] { return client.request("GET", "/health").is_object(); }));
  for (auto& each : asking)
    each->listen(0.05);
  CHECK(refused());
  may_end = true;
}

TEST_CASE("a watcher's monitor ends itself where it would stop the run") {
  const guarded_job at({}, [](const wanted_monitor&) {
    monitor result;
    result.see = [](const event&) { throw stop_training("a bad tensor"); };
    return result;
  });
  auto watcher = at.client(tokens.watch);
  watcher.attach("any");
  bool stops = false;
  try {
    const_cast<faked_job&>(at.job).feed(step_number(1));
  } catch (const stop_training&) {
    stops = true;
  } catch (const std::runtime_error&) {  // ends the monitor
  }
  CHECK_FALSE(stops);
  const auto message = watcher.next(10);
  REQUIRE(message);
  CHECK(message->content["reason"] == "a bad tensor");
  CHECK(message->content["stops_run"] == false);
}

TEST_CASE("without a folder for them no attached monitor writes files") {
  const guarded_job at;
  auto controller = at.client(tokens.control);
  for (const auto* spec : {"timeline:svg=true", "retro", "gradient_dump"})
    CHECK_THROWS_MATCHES(controller.attach(spec), error,
                         says("start it with --attach-folder"));
}

TEST_CASE("attached monitors write in a new folder of their own") {
  const temporary_folder folder;
  const auto attached = folder / "attached";
  const auto victim = folder.write("victim", "precious");
  std::filesystem::create_directory(attached);
  ::chmod(attached.c_str(), 0700);
  // Existing paths stay: a file, a link to a folder, a dangling link.
  std::ofstream(attached + "/retro-1-1") << "old";
  std::filesystem::create_directory_symlink(folder / ".",
                                            attached + "/retro-1-2");
  std::filesystem::create_symlink(folder / "nowhere", attached + "/retro-1-3");
  guarded_job at(attached);
  auto controller = at.client(tokens.control);
  for (const auto* spec : {"timeline:svg=picture.svg", "retro:folder=..",
                           "timeline:trace=/tmp/trace.json"})
    CHECK_THROWS_MATCHES(controller.attach(spec), error, says("names a place"));
  const auto used = controller.attach("retro:max_abs=1");
  CHECK(used.folder.starts_with(attached + "/retro-"));
  at.job.feed(failed_run());
  controller.detach(used);
  CHECK(std::filesystem::exists(used.folder + "/retro/step0.jsonl"));
  CHECK(content(victim) == "precious");
  CHECK(content(attached + "/retro-1-1") == "old");
  CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));
  CHECK_FALSE(std::filesystem::exists(folder / "retro"));
}

TEST_CASE("the folder stays the one that was opened") {
  const temporary_folder folder;
  const auto original = folder / "given", moved = folder / "moved";
  guarded_job at(original);
  std::filesystem::create_directory(folder / "victim");
  std::filesystem::rename(original, moved);
  std::filesystem::create_directory_symlink(folder / "victim", original);
  auto controller = at.client(tokens.control);
  const auto used = controller.attach("retro");
  at.job.feed(failed_run());
  controller.detach(used);
  CHECK(files_in(folder / "victim").empty());
  CHECK_FALSE(files_in(moved).empty());
}

TEST_CASE("a folder where others may write is refused") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "open");
  ::chmod((folder / "open").c_str(), 0777);
  CHECK_THROWS_MATCHES(guarded_job(folder / "open"), error,
                       says("others can write in this folder"));
  const auto refused = [](const std::string& path, const char* why) {
    CHECK_THROWS_MATCHES(guarded_job(path), error,
                         says("--attach-folder " + path) && says(why));
  };
  folder.write("file", "");
  refused(folder / "file", "can't be opened");
  refused(folder / "none/x", "can't be made");
  const auto others = ::geteuid() == 0 ? folder / "others" : "/";
  std::filesystem::create_directory(folder / "others");
  [[maybe_unused]] const auto failed =
    ::chown((folder / "others").c_str(), 12345, 12345);  // by root
  refused(others, "and must be your own; give another one");
}
