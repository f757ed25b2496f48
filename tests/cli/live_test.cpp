#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../temporary_folder.hpp"
#include "../write_secret.hpp"
#include "background_program.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

std::string served_command(const temporary_folder& folder,
                           const std::string& flags) {
  return std::string{TROUPE_PROGRAM} + " train --text "
         + write_text(folder)
         + " --d-model 16 --layers 2 --heads 2 --seq 8 --microbatch-size 2"
           " --microbatches 4 --steps 100000000 "
         + flags;
}

/// A run that goes on until the test is over.
struct live_run {
  explicit live_run(const std::string& flags = {})
    : job(
      served_command(folder, flags.empty() ? "--endpoint " + where() : flags),
      folder / "job") {}

  std::string where() const { return "unix:" + (folder / "socket"); }
  void ready() const { REQUIRE(job.writes("attach with: troupe top ")); }
  /// The endpoint that the job printed.
  std::string printed_endpoint() const {
    const auto output = job.output();
    const auto from = output.find("troupe top ") + 11;
    return output.substr(from, output.find_first_of(" \n", from) - from);
  }

  temporary_folder folder;
  background_program job;
};

}  // namespace

TEST_CASE("top shows a live run once, and its ranks") {
  const live_run at;
  at.ready();
  CHECK(at.printed_endpoint() == at.where());
  const auto top = run_troupe("top", at.where(), "--once");
  INFO(top.output);
  CHECK(top.exit_code == 0);
  CHECK_THAT(top.output,
             ContainsSubstring("1f1b: 2 ranks, 2 stages, 4 microbatches, 8 "
                               "messages per step")
               && ContainsSubstring("/100000000 loss ")
               && ContainsSubstring("(plan ") && ContainsSubstring("     0B3 ")
               && ContainsSubstring("     1B3 "));
  CHECK(top.output.find('\033') == std::string::npos);
}

TEST_CASE("events are printed, as lines and as JSON") {
  const live_run at;
  at.ready();
  const auto lines = run_troupe(
    "events", at.where(),
    "--tensors gradient --match 'blocks.0.mlp*' --every 2 --steps 3");
  INFO(lines.output);
  CHECK(lines.exit_code == 0);
  CHECK_THAT(lines.output,
             ContainsSubstring("blocks.0.mlp.up.weight: gradient max ")
               && !ContainsSubstring("blocks.1."));
  const auto json =
    run_troupe("events", at.where(), "--json --ops --steps 2 2>/dev/null");
  std::istringstream in(json.output);
  int steps = 0;
  for (std::string line; std::getline(in, line);)
    steps += nlohmann::json::parse(line).at("event") == "step" ? 1 : 0;
  CHECK(steps == 2);
}

TEST_CASE("what shows a run prints JSON too") {
  const live_run at;
  at.ready();
  const auto view = nlohmann::json::parse(
    run_troupe("top", at.where(), "--once --json 2>/dev/null").output);
  CHECK(view["ranks"] == 2);
  CHECK(view["step"] > 0);
  CHECK(view["step_took"] > 0);
  CHECK(view["losses"].size() == 1);
  REQUIRE(view["by_rank"].size() == 2);
  CHECK(view["by_rank"][1]["last"] == "1B3");
  CHECK(view["by_rank"][0]["busy"] > 0);
  const auto attached =
    run_troupe("attach", at.where(), "--json --keep throughput 2>/dev/null");
  const auto ids = nlohmann::json::parse(attached.output);
  REQUIRE(ids.size() == 1);
  const auto list = nlohmann::json::parse(
    run_troupe("detach", at.where(), "--list --json 2>/dev/null").output);
  REQUIRE(list.size() == 1);
  CHECK(list[0]["id"] == ids[0]);
  CHECK(list[0]["spec"] == "throughput");
  CHECK(list[0]["keep"] == true);
  background_program watcher(std::string{TROUPE_PROGRAM} + " attach "
                               + at.where() + " throughput --json",
                             at.folder / "watcher");
  CHECK(watcher.writes("throughput/bubble"));
  CHECK(watcher.end(SIGINT) == 0);
  const auto output = watcher.output();
  const auto begin = output.find('{');
  const auto line = nlohmann::json::parse(
    output.substr(begin, output.find('\n', begin) - begin));
  CHECK(line["found"] == "metrics");
  CHECK(line["id"].is_number());
  CHECK(run_troupe("detach", at.where(), "--json 1").exit_code == 2);
}

TEST_CASE("what shows a run ends when its output can't be written") {
  const live_run at;
  at.ready();
  for (const auto* command : {"events {}", "top {}", "attach {} throughput"}) {
    const auto run =
      run_program(fmt::format("( {} {} >/dev/full )", TROUPE_PROGRAM,
                              fmt::format(fmt::runtime(command), at.where())));
    INFO(command << "\n" << run.output);
    CHECK(run.exit_code == 1);
    CHECK_THAT(run.output,
               ContainsSubstring("standard output can't be written: "
                                 "No space left on device"));
    const auto unread = run_program(
      fmt::format("bash -c 'exec 3> >(:); wait $!; {} {} >&3'", TROUPE_PROGRAM,
                  fmt::format(fmt::runtime(command), at.where())));
    CHECK(unread.exit_code == 141);
    CHECK_THAT(unread.output, !ContainsSubstring("error"));
  }
}

TEST_CASE("attach prints findings until Ctrl-C, then detaches") {
  const live_run at;
  at.ready();
  background_program watcher(
    std::string{TROUPE_PROGRAM} + " attach " + at.where() + " throughput",
    at.folder / "watcher");
  CHECK(watcher.writes("throughput/bubble"));
  CHECK(watcher.end(SIGINT) == 0);
  const auto attached =
    run_troupe("attach", at.where(), "--keep throughput 2>/dev/null");
  CHECK(attached.exit_code == 0);
  const auto list = [&] {
    return run_troupe("detach", at.where(), "--list 2>/dev/null").output;
  };
  const auto id = attached.output.substr(0, attached.output.find('\n'));
  CHECK(list() == id + " throughput (kept)\n");
  CHECK(run_troupe("detach", at.where(), id).exit_code == 0);
  CHECK(list() == "");
  CHECK(run_troupe("detach", at.where(), "").exit_code == 2);
  CHECK_THAT(
    run_troupe("detach", at.where(), "throughput").output,
    ContainsSubstring("'throughput' is not the id of a monitor; --list"));
}

TEST_CASE("a client is warned of globs that match nothing") {
  const live_run at;
  at.ready();
  for (const auto* watching :
       {"attach {} gap --match 'nothing.*'",
        "events {} --tensors activation --match 'nothing.*'"}) {
    background_program watcher(
      std::string{TROUPE_PROGRAM} + " "
        + fmt::format(fmt::runtime(watching), at.where()),
      // Not the file that the previous command wrote.
      at.folder / (watching[0] == 'a' ? "attach" : "events"));
    CHECK(watcher.writes("no module or parameter is named 'nothing.*'"));
    CHECK(watcher.end(SIGINT) == 0);
  }
}

TEST_CASE("of several monitors all are attached, or none") {
  const live_run at;
  at.ready();
  const auto refused =
    run_troupe("attach", at.where(), "--keep throughput gap --match");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("is its value missing?"));
  CHECK(run_troupe("detach", at.where(), "--list 2>/dev/null").output == "");
  CHECK(run_troupe("top", at.where(), "--once").exit_code == 0);
}

TEST_CASE("what watches a run ends with it") {
  live_run at;
  at.ready();
  background_program watcher(
    std::string{TROUPE_PROGRAM} + " attach " + at.where() + " throughput",
    at.folder / "watcher");
  CHECK(watcher.writes("throughput/bubble"));
  CHECK(at.job.end(SIGTERM) == 143);
  CHECK(watcher.writes("no monitors are attached any more"));
  CHECK(watcher.end(0) == 0);
  CHECK_FALSE(std::filesystem::exists(at.folder / "socket"));
}

TEST_CASE("settings on the command line reach the job as a spec") {
  const live_run at;
  at.ready();
  const auto refused = run_troupe(
    "attach", at.where(), "gap --match 'a.*,b' --histogram --abort-after=-1");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output,
             ContainsSubstring("monitor gap has no setting 'abort_after'; it "
                               "has every, match, histogram"));
}

TEST_CASE("tcp with a token") {
  const temporary_folder folder;
  const auto token = write_secret(folder, "secret-of-the-endpoint");
  const live_run at("--endpoint tcp:127.0.0.1:0 --endpoint-token-file "
                    + token);
  at.ready();
  const auto refused = run_troupe("top", at.printed_endpoint(), "--once");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("needs a token"));
  CHECK(run_troupe("top", at.printed_endpoint(), "--once --token-file " + token)
          .exit_code
        == 0);
}

TEST_CASE("the default endpoint is the user's alone, or elsewhere") {
  const temporary_folder folder;
  const auto own = folder / "run";
  std::filesystem::create_directory(own);
  const auto train = [&] {
    return run_program("XDG_RUNTIME_DIR=" + own + " "
                       + served_command(folder, "--steps 2"));
  };
  auto run = train();
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("attach with: troupe top unix:" + own
                                           + "/troupe/"));
  CHECK(::chmod((own + "/troupe").c_str(), 0755) == 0);
  run = train();
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("the endpoint is in /tmp/troupe-")
               && ContainsSubstring(own + "/troupe is open to other users"));
}

TEST_CASE("wrong endpoints are wrong usage, or fail") {
  const temporary_folder folder;
  const auto train = [&](const std::string& flags) {
    return run_program(served_command(folder, flags));
  };
  CHECK(train("--endpoint nonsense").exit_code == 2);
  CHECK(train("--endpoint tcp:127.0.0.1:0").exit_code == 2);
  CHECK(train("--plain --endpoint unix:/tmp/x").exit_code == 2);
  CHECK(train("--endpoint unix:/no/such/folder/x").exit_code == 1);
  CHECK(train("--steps 1 --endpoint none").exit_code == 0);
  CHECK(run_troupe("top", "nonsense").exit_code == 2);
  CHECK(run_troupe("attach", "unix:/tmp/x --match a").exit_code == 2);
  CHECK(run_troupe("events", "unix:/x --tensors none").exit_code == 2);
  const auto nobody = run_troupe("top", "unix:" + (folder / "nobody"));
  CHECK(nobody.exit_code == 1);
  CHECK_THAT(nobody.output, ContainsSubstring("no answer at"));
  for (const auto* command : {"attach", "detach", "events", "top"}) {
    const auto help = run_troupe(command, "--help");
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.output, ContainsSubstring("Example:"));
  }
}
