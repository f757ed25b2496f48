#include "troupe/engine/launch/job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "../../temporary_folder.hpp"
#include "troupe/engine/launch/agent_store.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/certificates.hpp"
#include "troupe/engine/transport/listener.hpp"
#include "troupe/schedules/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

job_options options_of(std::int32_t process, std::int32_t processes,
                       const std::string& rendezvous) {
  job_options made;
  made.place.launcher = "a test";
  made.place.process = process;
  made.place.processes = processes;
  made.place.local_processes = processes;
  made.rendezvous = rendezvous;
  made.patience = std::chrono::seconds(30);
  return made;
}

struct joined {
  std::vector<std::shared_ptr<mesh>> meshes;
  std::vector<std::string> errors;
};

/// Each process a thread.
joined join_all(const std::vector<job_options>& all) {
  joined made{std::vector<std::shared_ptr<mesh>>(all.size()),
              std::vector<std::string>(all.size())};
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < all.size(); ++p)
    processes.emplace_back([&, p] {
      try {
        made.meshes[p] = join_job(all[p]);
      } catch (const error& reason) {
        made.errors[p] = reason.what();
      }
    });
  for (auto& each : processes)
    each.join();
  return made;
}

/// Every process tells every other one its number.
void check_talk(std::vector<std::shared_ptr<mesh>> meshes) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::pair<std::int32_t, std::int32_t>> heard;
  const auto count = static_cast<std::int32_t>(meshes.size());
  for (const auto& each : meshes) {
    mesh_events events;
    events.arrived = [&, here = each->place().process](std::int32_t from,
                                                       frame what) {
      const std::scoped_lock lock(mutex);
      CHECK(what.head == std::to_string(from));
      heard.emplace(from, here);
      changed.notify_all();
    };
    each->start(std::move(events));
  }
  for (const auto& each : meshes)
    for (std::int32_t p = 0; p < count; ++p)
      if (const auto own = each->place().process; p != own)
        each->send(p, {frame_type::tensors, std::to_string(own), {}});
  std::unique_lock lock(mutex);
  const auto all = static_cast<std::size_t>(count * (count - 1));
  CHECK(changed.wait_for(lock, std::chrono::minutes(1),
                         [&] { return heard.size() == all; }));
  CHECK(std::ranges::all_of(meshes, [&](const auto& each) {
    return each->place().run == meshes[0]->place().run && each->place().run > 0;
  }));
  lock.unlock();
  std::vector<std::thread> leaving;
  for (auto& each : meshes)
    leaving.emplace_back([mine = std::move(each)]() mutable { mine.reset(); });
  for (auto& each : leaving)
    each.join();
}

std::string free_port() {
  const listener one(parse_endpoint("tcp:127.0.0.1:0"));
  return to_text(one.where());
}

}  // namespace

TEST_CASE("processes meet over unix sockets and talk to each other") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  auto made = join_all({options_of(0, 3, where), options_of(1, 3, where),
                        options_of(2, 3, where)});
  REQUIRE(made.errors == std::vector<std::string>(3));
  check_talk(std::move(made.meshes));
}

TEST_CASE("processes meet over unix sockets and talk through shared memory") {
  const temporary_folder folder;
  std::vector<job_options> all;
  for (int p = 0; p < 3; ++p) {
    all.push_back(options_of(p, 3, "unix:" + (folder / "job")));
    all.back().lines = line_kind::shared_memory;
  }
  auto made = join_all(all);
  REQUIRE(made.errors == std::vector<std::string>(3));
  check_talk(std::move(made.meshes));
}

TEST_CASE("processes meet over TCP with a token") {
  const auto where = free_port();
  std::vector<job_options> all;
  for (int p = 0; p < 4; ++p) {
    all.push_back(options_of(p, 4, where));
    all.back().shown.token = "a secret of 32 characters or more";
  }
  auto made = join_all(all);
  REQUIRE(made.errors == std::vector<std::string>(4));
  check_talk(std::move(made.meshes));
}

namespace {

/// Processes that their launchers say are two on a machine each.
std::vector<job_options> on_machines(const std::vector<std::string>& names,
                                     line_kind lines) {
  const auto count = static_cast<std::int32_t>(names.size());
  const auto where = free_port();
  std::vector<job_options> all;
  for (std::int32_t p = 0; p < count; ++p) {
    all.push_back(options_of(p, count, where));
    all.back().place.local_processes = 2;
    all.back().machine = names[static_cast<std::size_t>(p)];
    all.back().shown.token = std::string(32, 't');
    all.back().lines = lines;
  }
  return all;
}

}  // namespace

namespace {

/// While it lives, the user's own folder is in this one, which is made.
class own_folder {
 public:
  explicit own_folder(const std::string& within) {
    std::filesystem::create_directories(within);
    if (const auto* was = std::getenv("XDG_RUNTIME_DIR"))
      before_ = was;
    ::setenv("XDG_RUNTIME_DIR", within.c_str(), 1);
  }
  ~own_folder() {
    if (before_)
      ::setenv("XDG_RUNTIME_DIR", before_->c_str(), 1);
    else
      ::unsetenv("XDG_RUNTIME_DIR");
  }
  own_folder(const own_folder&) = delete;
  own_folder& operator=(const own_folder&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("processes of one machine of several are joined within it") {
  const temporary_folder folder;
  const own_folder here(folder / "own");
  for (const auto lines : {line_kind::socket, line_kind::shared_memory}) {
    auto made = join_all(on_machines({"a", "b", "b", "a"}, lines));
    REQUIRE(made.errors == std::vector<std::string>(4));
    check_talk(std::move(made.meshes));
  }
}

TEST_CASE("no TCP is needed within a machine of several") {
  const temporary_folder folder;
  const own_folder here(folder / "own");
  auto all = on_machines({"", "", ""}, line_kind::socket);
  for (auto& each : all)
    each.announced = "127.0.0.1:1";  // nobody listens there
  auto made = join_all(all);
  REQUIRE(made.errors == std::vector<std::string>(3));
  check_talk(std::move(made.meshes));
}

TEST_CASE("processes that have no folder in common are joined by TCP") {
  const temporary_folder folder;
  for (const std::string& name :
       {std::string("taken"), "long" + std::string(80, 'g')}) {
    const own_folder here(folder / name);
    folder.write("taken/troupe", "a file");
    std::mutex mutex;
    std::string news;
    auto all = on_machines({"", "", ""}, line_kind::socket);
    for (auto& each : all)
      each.news = [&](const std::string& text) {
        const std::scoped_lock lock(mutex);
        news += text;
      };
    auto made = join_all(all);
    REQUIRE(made.errors == std::vector<std::string>(3));
    CHECK_THAT(news, ContainsSubstring("are joined by TCP"));
    check_talk(std::move(made.meshes));
  }
}

TEST_CASE("a token beside certificates is not asked for within a machine") {
  const temporary_folder folder;
  const own_folder here(folder / "own");
  const auto certificates = folder / "certificates";
  make_certificates(certificates);
  auto all = on_machines({"", "", ""}, line_kind::socket);
  all[1].shown.token.clear();
  for (auto& each : all)
    each.shown.certificates = certificates;
  auto made = join_all(all);
  REQUIRE(made.errors == std::vector<std::string>(3));
  check_talk(std::move(made.meshes));
}

TEST_CASE("who is on another machine, or says nothing of it, is met over TCP") {
  const process_address a{"tcp:a", "m", "unix:a"}, b{"tcp:b", "m", "unix:b"},
    elsewhere{"tcp:c", "n", "unix:c"}, silent{"tcp:d"};
  CHECK(way_to(a, b) == "unix:a");
  CHECK(way_to(a, elsewhere) == "tcp:a");
  CHECK(way_to(elsewhere, a) == "tcp:c");
  CHECK(way_to(a, silent) == "tcp:a");
  CHECK(way_to(silent, silent) == "tcp:d");
}

namespace {

/// The store that torchrun's agent keeps.
auto make_agent() {
  c10d::TCPStoreOptions serving;
  serving.port = 0;
  serving.isServer = true;
  serving.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", serving);
}

/// As agents of several machines start a process.
job_options under_agent(const c10d::TCPStore& agent, std::int32_t process,
                        const std::string& attempt) {
  const std::map<std::string, std::string> variables{
    {"RANK", std::to_string(process)},
    {"WORLD_SIZE", "3"},
    {"LOCAL_WORLD_SIZE", "1"},
    {"MASTER_ADDR", "127.0.0.1"},
    {"MASTER_PORT", std::to_string(agent.getPort())},
    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
    {"TORCHELASTIC_RUN_ID", "none"},
    {"TORCHELASTIC_RESTART_COUNT", attempt}};
  auto made = options_of(process, 3, "");
  made.place = read_environment(
    [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt
                                      : std::optional(found->second);
    });
  made.shown.token = std::string(32, 't');
  return made;
}

}  // namespace

TEST_CASE(
  "processes of several machines meet by the store of torchrun's agent") {
  const auto agent = make_agent();
  for (const auto* attempt : {"0", "1"}) {
    auto made = join_all({under_agent(*agent, 0, attempt),
                          under_agent(*agent, 1, attempt),
                          under_agent(*agent, 2, attempt)});
    REQUIRE(made.errors == std::vector<std::string>(3));
    check_talk(std::move(made.meshes));
  }
}

TEST_CASE("an attempt doesn't go where the one before it met") {
  const auto agent = make_agent();
  const auto before = under_agent(*agent, 0, "0").place;
  const auto later = under_agent(*agent, 1, "1").place;
  tell_agent_store(before, "tcp:127.0.0.1:1", std::chrono::seconds(30));
  CHECK_THROWS_AS(ask_agent_store(later, std::chrono::milliseconds(200)),
                  error);
}

TEST_CASE("an agent that is gone is told of") {
  auto alone = options_of(1, 2, "");
  alone.place.local_processes = 1;
  alone.place.host = "127.0.0.1";
  alone.place.port = 1;
  alone.place.agent_store = true;
  alone.shown.token = std::string(32, 't');
  alone.patience = std::chrono::milliseconds(200);
  CHECK_THAT(join_all({alone}).errors[0],
             ContainsSubstring("the store of torchrun's agent at 127.0.0.1:1")
               && ContainsSubstring("--rendezvous"));
}

TEST_CASE("a setting that differs is named in all processes") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  auto leader = options_of(0, 2, where);
  auto other = options_of(1, 2, where);
  leader.description = {{"version", "1"}, {"microbatches", "4"}};
  other.description = {{"version", "1"}, {"microbatches", "8"}};
  const auto made = join_all({leader, other});
  for (const auto& each : made.errors)
    CHECK_THAT(each, ContainsSubstring("microbatches is 8 there, and 4 in "
                                       "process 0; start all processes alike"));
}

TEST_CASE("a process that does not come is named") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  std::vector<job_options> all{options_of(0, 4, where),
                               options_of(2, 4, where)};
  for (auto& each : all)
    each.patience = std::chrono::milliseconds(300);
  std::mutex mutex;
  std::string news;
  all[0].news_every = std::chrono::milliseconds(100);
  all[0].news = [&](const std::string& text) {
    const std::scoped_lock lock(mutex);
    news = text;
  };
  const auto made = join_all(all);
  CHECK_THAT(made.errors[0],
             ContainsSubstring("process 1, process 3 of 4 did not come"));
  CHECK(news == "waiting for process 1, process 3 of 4 at " + where);
  CHECK(made.errors[1] != "");
}

TEST_CASE("two processes of one number are an error") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  const auto made = join_all({options_of(0, 3, where), options_of(1, 3, where),
                              options_of(1, 3, where)});
  CHECK_THAT(made.errors[0], ContainsSubstring("both say that they are process "
                                               "1"));
}

TEST_CASE("a host's name that is loopback to itself is refused") {
  auto options = options_of(0, 2, "");
  options.place.local_processes = 1;
  options.place.host = "0x7f000101";  // as Debian writes: 127.0.1.1
  options.place.port = 1;
  options.shown.token = std::string(32, 't');
  const auto check_refused = [&] {
    CHECK_THAT(join_all({options}).errors[0],
               ContainsSubstring("an address of loopback on this")
                 && ContainsSubstring("--rendezvous HOST:PORT"));
  };
  check_refused();
  options.place.agent_store = true;
  check_refused();
  options.rendezvous = "0x7f000101:1";
  check_refused();
}

TEST_CASE("shared memory is said to be of no use between machines") {
  std::mutex mutex;
  std::string news;
  std::vector<job_options> all;
  const auto where = free_port();
  for (int p = 0; p < 2; ++p) {
    all.push_back(options_of(p, 2, where));
    all.back().shown.token = std::string(32, 't');
    all.back().lines = line_kind::shared_memory;
    all.back().news = [&](const std::string& text) {
      const std::scoped_lock lock(mutex);
      news += text;
    };
  }
  const auto made = join_all(all);
  CHECK(made.errors == std::vector<std::string>(2));
  CHECK_THAT(news, ContainsSubstring("--link shared has no effect"));
}

TEST_CASE("machines without a meeting point are told what to give") {
  auto options = options_of(0, 2, "");
  options.place.launcher = "Slurm";
  options.place.local_processes = 1;
  try {
    join_job(options);
    FAIL("it was taken");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("Slurm does not say where")
                                && ContainsSubstring("--rendezvous HOST:PORT"));
  }
}
