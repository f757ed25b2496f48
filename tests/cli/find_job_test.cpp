// Commands for live jobs, without an endpoint and with a hostile one.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <future>

#include "../temporary_folder.hpp"
#include "background_program.hpp"
#include "troupe/engine/transport/stream/listener.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe;
using namespace troupe::testing;

namespace {

/// A user who has no jobs but those of the test.
struct some_user {
  std::string variable() const {
    return "XDG_RUNTIME_DIR=" + (folder / "") + " ";
  }
  std::string job() const {
    return fmt::format(
      "env {} {} train --text {} --d-model 16 --layers 2 --heads 2 --seq 8 "
      "--microbatch-size 2 --microbatches 4 --steps 100000000",
      variable(), TROUPE_PROGRAM, text);
  }
  program_result run(const std::string& command) const {
    return run_program(variable() + TROUPE_PROGRAM + " " + command);
  }

  temporary_folder folder;
  std::string text = write_text(folder);
};

}  // namespace

TEST_CASE("a job is found by itself where it is the user's only one") {
  const some_user user;
  const auto none = user.run("top --once");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.output,
             ContainsSubstring("none of your jobs on this machine responds"));
  const background_program first(user.job(), user.folder / "first");
  REQUIRE(first.writes("attach with:"));
  const auto top = user.run("top --once");
  INFO(top.output);
  CHECK(top.exit_code == 0);
  CHECK_THAT(top.output, ContainsSubstring("1f1b: 2 ranks"));
  const auto attached = user.run("attach overflow --every 10 --keep");
  INFO(attached.output);
  CHECK(attached.exit_code == 0);
  auto listed = user.run("detach --list").output;
  CHECK_THAT(listed, ContainsSubstring("the job at unix:"));
  listed.erase(0, listed.find('\n') + 1);
  CHECK_THAT(listed, ContainsSubstring(" overflow:every=10 (kept)"));
  CHECK(user.run("detach " + listed.substr(0, listed.find(' '))).exit_code
        == 0);
  CHECK(user.run("events --steps 1").exit_code == 0);
  CHECK(user.run("attach").exit_code == 2);
}

TEST_CASE("of several jobs one is to be named") {
  const some_user user;
  const background_program first(user.job(), user.folder / "first");
  const background_program second(user.job(), user.folder / "second");
  REQUIRE(first.writes("attach with:"));
  REQUIRE(second.writes("attach with:"));
  const auto run = user.run("top --once");
  INFO(run.output);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output,
             ContainsSubstring("you have 2 jobs")
               && ContainsSubstring(fmt::format("/{}-", first.pid()))
               && ContainsSubstring(fmt::format("/{}-", second.pid()))
               && ContainsSubstring(".sock: 1f1b, 2 ranks, step "));
}

TEST_CASE("jobs of one process number in two containers are both found") {
  constexpr auto contained = "unshare --pid --fork --kill-child ";
  if (run_program(std::string(contained) + "true").exit_code != 0)
    SKIP("this user can't make a namespace of processes");
  const some_user user;
  const background_program first(contained + user.job(), user.folder / "first");
  const background_program second(contained + user.job(),
                                  user.folder / "second");
  REQUIRE(first.writes("attach with:"));
  REQUIRE(second.writes("attach with:"));
  const auto run = user.run("top --once");
  INFO(run.output);
  CHECK_THAT(run.output, ContainsSubstring("you have 2 jobs"));
}

TEST_CASE("an endpoint's text is escaped before it reaches a terminal") {
  const temporary_folder folder;
  const listener at(parse_endpoint("unix:" + (folder / "s")));
  const std::string body = R"({"error":"\u001b[2J\u009b2J gone"})";
  const auto refusal = fmt::format(
    "HTTP/1.1 503 Gone\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  const auto other = std::async(std::launch::async, [&] {
    pollfd incoming{at.handle(), POLLIN, 0};
    ::poll(&incoming, 1, 60'000);
    const int client = ::accept(at.handle(), nullptr, nullptr);
    ::send(client, refusal.data(), refusal.size(), MSG_NOSIGNAL);
    pollfd end{client, POLLIN, 0};
    ::poll(&end, 1, 1'000);
    ::close(client);
  });
  const auto run = run_troupe("top", to_text(at.where()));
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("\\x1B[2J\\xC2\\x9B2J gone"));
  CHECK(run.output.find('\033') == std::string::npos);
}
