#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/mesh.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "../../temporary_folder.hpp"
#include "joined_processes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/launch/rendezvous_stream.hpp"
#include "troupe/engine/launch/tensor_lines.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("processes meet over unix sockets and talk to each other") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  auto job = join_all({options_of(0, 3, where), options_of(1, 3, where),
                       options_of(2, 3, where)});
  REQUIRE(job.errors == std::vector<std::string>(3));
  check_talk(std::move(job.meshes));
}

TEST_CASE("processes meet over unix sockets and talk through shared memory") {
  const temporary_folder folder;
  std::vector<job_options> all;
  for (int p = 0; p < 3; ++p) {
    all.push_back(options_of(p, 3, "unix:" + (folder / "job")));
    all.back().lines = line_kind::shared_memory;
  }
  auto job = join_all(all);
  REQUIRE(job.errors == std::vector<std::string>(3));
  check_talk(std::move(job.meshes));
}

TEST_CASE("processes meet over TCP with a token") {
  const auto where = free_port();
  std::vector<job_options> all;
  for (int p = 0; p < 4; ++p) {
    all.push_back(options_of(p, 4, where));
    all.back().shown.token = "a secret of 32 characters or more";
  }
  auto job = join_all(all);
  REQUIRE(job.errors == std::vector<std::string>(4));
  check_talk(std::move(job.meshes));
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

/// The options of a process started by the agents of several machines.
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
  auto options = options_of(process, 3, "");
  options.place = read_environment(
    [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt
                                      : std::optional(found->second);
    });
  options.shown.token = std::string(32, 't');
  return options;
}

}  // namespace

TEST_CASE(
  "processes of several machines meet by the store of torchrun's agent") {
  const auto agent = make_agent();
  for (const auto* attempt : {"0", "1"}) {
    auto job = join_all({under_agent(*agent, 0, attempt),
                         under_agent(*agent, 1, attempt),
                         under_agent(*agent, 2, attempt)});
    REQUIRE(job.errors == std::vector<std::string>(3));
    check_talk(std::move(job.meshes));
  }
}

// Each machine's agent counts its own restarts.
TEST_CASE("a restarted job meets where its process 0 is now") {
  const auto agent = make_agent();
  const auto before = under_agent(*agent, 0, "0").place;
  tell_agent_store(before, "tcp:127.0.0.1:1", std::chrono::seconds(30));
  auto job = join_all({under_agent(*agent, 0, "1"), under_agent(*agent, 1, "0"),
                       under_agent(*agent, 2, "2")});
  REQUIRE(job.errors == std::vector<std::string>(3));
  check_talk(std::move(job.meshes));
}

TEST_CASE("a lost agent is reported") {
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
  const auto job = join_all({leader, other});
  for (const auto& each : job.errors)
    CHECK_THAT(each,
               ContainsSubstring("microbatches is 8 there, but 4 in process 0; "
                                 "start all processes with the same flags"));
}

TEST_CASE("a process that does not come is named") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  std::vector<job_options> all{options_of(0, 4, where),
                               options_of(2, 4, where)};
  for (auto& each : all)
    each.patience = std::chrono::seconds(2);
  std::mutex mutex;
  std::string news;
  all[0].news_every = std::chrono::milliseconds(500);
  all[0].news = [&](const std::string& text) {
    const std::scoped_lock lock(mutex);
    news = text;
  };
  const auto job = join_all(all);
  CHECK_THAT(job.errors[0],
             ContainsSubstring("process 1, process 3 of 4 did not connect"));
  CHECK(news == "waiting for process 1, process 3 of 4 at " + where);
  CHECK(job.errors[1] != "");
}

TEST_CASE("a meeting that process 0 gives up is over for the others") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  std::vector<job_options> all{options_of(0, 3, where),
                               options_of(1, 3, where)};
  std::atomic<bool> gives_up = false;
  all[0].news_every = std::chrono::milliseconds(20);
  all[0].news = [&](const std::string& text) {
    gives_up = text.starts_with("waiting for process 2 of 3");
  };
  all[0].stopped = [&] { return gives_up.load(); };
  const auto job = join_all(all);
  CHECK(job.codes[0] == error_code::interrupted);
  CHECK_THAT(job.errors[1], ContainsSubstring("process 0 was stopped"));
  CHECK(job.codes[1] == error_code::transport);  // it may be tried again
}

TEST_CASE("rejected credentials are told at once") {
  const auto where = free_port();
  std::vector<job_options> all{options_of(0, 2, where),
                               options_of(1, 2, where)};
  all[0].shown.token = "a secret of 32 characters or more";
  all[1].shown.token = "another one of 32 characters or more";
  std::string first;
  all[0].news = [&](const std::string& text) { first = text; };
  all[0].stopped = [&] { return !first.empty(); };
  const auto job = join_all(all);
  CHECK_THAT(first, StartsWith("a connection was rejected: "));
  CHECK(job.errors[1] != "");
}

TEST_CASE("the error about a process that does not come tells of a rejection") {
  const auto where = free_port();
  std::vector<job_options> all{options_of(0, 2, where),
                               options_of(1, 2, where)};
  all[0].shown.token = "a secret of 32 characters or more";
  all[1].shown.token = "another one of 32 characters or more";
  for (auto& each : all)
    each.patience = std::chrono::seconds(2);
  CHECK_THAT(
    join_all(all).errors[0],
    StartsWith("a connection was rejected: ")
      && ContainsSubstring("; process 1 of 2 did not connect to " + where));
}

TEST_CASE("a given rendezvous needs no advice about addresses") {
  const std::map<std::string, std::string> by_hand{{"RANK", "0"},
                                                   {"WORLD_SIZE", "2"}};
  auto alone = options_of(0, 2, "");
  alone.place = read_environment(
    [&](const std::string& name) -> std::optional<std::string> {
      const auto found = by_hand.find(name);
      return found == by_hand.end() ? std::nullopt
                                    : std::optional(found->second);
    });
  alone.patience = std::chrono::milliseconds(100);
  const auto advice = ContainsSubstring("Without MASTER_ADDR");
  CHECK_THAT(join_all({alone}).errors[0], advice);
  const temporary_folder folder;
  alone.rendezvous = "unix:" + (folder / "job");
  CHECK_THAT(join_all({alone}).errors[0],
             ContainsSubstring("did not connect to") && !advice);
}

TEST_CASE("a shell of Slurm's that waits alone learns which variable did it") {
  const temporary_folder folder;
  const std::map<std::string, std::string> shell{{"SLURM_PROCID", "0"},
                                                 {"SLURM_STEP_NUM_TASKS", "2"},
                                                 {"SLURM_LOCALID", "0"},
                                                 {"SLURM_JOB_ID", "11"},
                                                 {"SLURM_STEP_ID", "5"}};
  auto alone = options_of(0, 2, "unix:" + (folder / "job"));
  alone.place = read_environment(
    [&](const std::string& name) -> std::optional<std::string> {
      const auto found = shell.find(name);
      return found == shell.end() ? std::nullopt : std::optional(found->second);
    });
  alone.patience = std::chrono::milliseconds(150);
  std::string news;
  alone.news_every = std::chrono::milliseconds(50);
  alone.news = [&](const std::string& text) { news = text; };
  CHECK_THAT(join_all({alone}).errors[0],
             ContainsSubstring("process 1 of 2 (SLURM_STEP_NUM_TASKS=2) did "
                               "not connect")
               && ContainsSubstring("`srun --pty -n 1`"));
  CHECK_THAT(news,
             ContainsSubstring("process 1 of 2 (SLURM_STEP_NUM_TASKS=2)"));
}

namespace {

/// Process 1 of 2. It sends its last message of the rendezvous and a frame of
/// the mesh at once. Its destructor closes the connections.
class hasty_process {
 public:
  explicit hasty_process(job_options options) : options_(std::move(options)) {
    spawn(here_.get_executor(), [this] { return join(); });
    thread_ = std::thread([this] { here_.run(); });
  }
  ~hasty_process() {
    here_.stop();
    thread_.join();
  }

 private:
  boost::asio::awaitable<void> join() {
    const auto where = parse_endpoint(point_.where);
    auto stream = co_await reach(0, where, options_.shown, options_.patience);
    control_ =
      std::make_unique<awaited_stream>(here_.get_executor(), std::move(stream));
    const join_request own{1, 2, 7, "host", lines_.own(), {}};
    co_await say(*control_, own);
    const auto welcome = co_await hear(*control_);
    const auto& all = std::get<join_welcome>(welcome);
    lines_.begin(all.run, all.addresses);
    const auto bytes =
      frame_start(to_frame(job_ready{{0}}))
      + frame_start({frame_type::mail, "the first of the mesh", {}});
    co_await control_->write_all(bytes);
  }

  boost::asio::io_context here_{1};
  const job_options options_;
  const meeting_point point_ = meeting_point_of(options_);
  std::unique_ptr<awaited_stream> control_;
  tensor_lines lines_{here_.get_executor(), options_, point_,
                      []() -> boost::asio::awaitable<void> { co_return; }};
  std::thread thread_;
};

}  // namespace

TEST_CASE("the rendezvous reads nothing that is for the mesh") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  const hasty_process other(options_of(1, 2, where));
  const auto job = join_job(options_of(0, 2, where));
  job->start({});
  CHECK(job->receive(1).head == "the first of the mesh");
}

TEST_CASE("two processes of one number are an error") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  const auto job = join_all({options_of(0, 3, where), options_of(1, 3, where),
                             options_of(1, 3, where)});
  CHECK_THAT(job.errors[0], ContainsSubstring("both claim to be process 1"));
}

TEST_CASE("a second process 0 at one place is refused, with advice on RANK") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  const listener first(parse_endpoint(where));
  const auto second = join_all({options_of(0, 2, where)}).errors.front();
  CHECK_THAT(second, ContainsSubstring("a live job already listens there")
                       && ContainsSubstring("each process with its own RANK"));
}

TEST_CASE("a setting that one process lacks is reported as not given") {
  CHECK(difference({{"--seed", "1"}}, {})
        == "--seed is not given there, but 1 in process 0");
}

TEST_CASE("a process may lack what process 0 writes, but not the reverse") {
  const job_description lacks{{"--trace", agrees_with_any}};
  CHECK(difference({{"--trace", "given"}}, lacks) == "");
  CHECK(difference({{"--trace", "not given"}}, lacks) == "");
  CHECK(difference({{"--trace", "not given"}}, {{"--trace", "given"}})
        == "--trace is given there, but not given in process 0");
}

TEST_CASE("processes without credentials learn of all three ways to trust") {
  const auto where = free_port();
  const auto why = join_all({options_of(0, 2, where)}).errors.front();
  CHECK_THAT(why, StartsWith(where) && ContainsSubstring("--job-token-file")
                    && ContainsSubstring("--certificates")
                    && ContainsSubstring("--insecure"));
}

TEST_CASE("a host's name that is loopback to itself is refused") {
  auto options = options_of(0, 2, "");
  options.place.local_processes = 1;
  options.place.host = "0x7f000101";  // as Debian writes 127.0.1.1
  options.place.port = 1;
  options.shown.token = std::string(32, 't');
  const auto check_refused = [&] {
    CHECK_THAT(join_all({options}).errors[0],
               ContainsSubstring("a loopback address of this")
                 && ContainsSubstring("--rendezvous HOST:PORT"));
  };
  check_refused();
  options.place.agent_store = true;
  check_refused();
  options.rendezvous = "0x7f000101:1";
  check_refused();
}

TEST_CASE("port 0, to which nobody could connect, is refused") {
  auto options = options_of(0, 2, "127.0.0.1:0");
  options.shown.token = std::string(32, 't');
  const auto why = ContainsSubstring("127.0.0.1:0: other processes can't");
  CHECK_THAT(join_all({options}).errors[0], why);
  options.rendezvous = "127.0.0.1:1";
  options.announced = "127.0.0.1:0";
  CHECK_THAT(join_all({options}).errors[0], why);
}

TEST_CASE("machines without a meeting point learn which setting to give") {
  auto options = options_of(0, 2, "");
  options.place.launcher = "Slurm";
  options.place.local_processes = 1;
  try {
    join_job(options);
    FAIL("it was taken");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(),
               ContainsSubstring("Slurm does not give the address")
                 && ContainsSubstring("--rendezvous HOST:PORT"));
  }
}
