// What holders of a live job's tokens may do to the job and its machine.
#include <sys/stat.h>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "background_program.hpp"
#include "troupe/monitors/live/live_client.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe;
using namespace troupe::testing;

namespace {

/// A run with both tokens and a folder for what attached monitors write.
struct guarded_run {
  guarded_run() {
    REQUIRE(job.writes("attach with: troupe top "));
    const auto output = job.output();
    const auto from = output.find("troupe top ") + 11;
    where = output.substr(from, output.find_first_of(" \n", from) - from);
  }

  std::string flag(const std::string& token) const {
    return " --token-file " + token + " ";
  }
  program_result watch(const std::string& command,
                       const std::string& words) const {
    return run_troupe(command, where, words + flag(watching));
  }
  program_result control(const std::string& command,
                         const std::string& words) const {
    return run_troupe(command, where, words + flag(controlling));
  }

  temporary_folder folder;
  std::string text = write_text(folder);
  std::string secret(const std::string& name, const std::string& token) const {
    auto path = folder.write(name, token);
    ::chmod(path.c_str(), 0600);
    return path;
  }
  std::string watching = secret("watch", "a-token-to-watch-with");
  std::string controlling = secret("control", "a-token-to-control-with");
  std::string attached = folder / "attached";
  background_program job{
    fmt::format(
      "{2} train --text {3} --d-model 16 --layers 2 --heads 2 --seq 8 "
      "--microbatch-size 2 --microbatches 4 --steps 100000000 "
      "--endpoint tcp:127.0.0.1:0 --endpoint-token-file {0} "
      "--endpoint-control-token-file {1} --attach-folder {4}",
      watching, controlling, TROUPE_PROGRAM, text, attached),
    folder / "job"};
  std::string where;
};

[[gnu::noinline]] void check_refused(const program_result& run,
                                     const std::string& because) {
  INFO(run.output);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring(because));
}

}  // namespace

TEST_CASE("a token for watching is no shell, and changes no file") {
  const guarded_run at;
  const auto before = content(at.text);
  const auto order = at.folder.write("$(command).csv",
                                     "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\r\n"
                                     "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\r\n");
  const auto replan = "--force --schedule '" + order + "'";
  CHECK(at.watch("top", "--once").exit_code == 0);
  check_refused(at.watch("replan", replan), "may watch the job");
  check_refused(at.watch("move", "0 0"), "may watch the job");
  check_refused(at.watch("attach", "timeline --svg"), "may watch the job");
  CHECK(at.watch("ranks", "").exit_code == 0);
  check_refused(at.watch("attach", "stability --keep"), "may watch the job");
  check_refused(at.watch("attach", "budget"), "may watch the job");
  // Nor may a client with control choose a file or its content.
  check_refused(at.control("attach", "timeline:svg=" + at.text),
                "names a place");
  const auto replanned = at.control("replan", replan);
  INFO(replanned.output);
  CHECK(replanned.exit_code == 0);
  const auto attached = at.control("attach", "timeline --trace --svg --keep");
  INFO(attached.output);
  CHECK(attached.exit_code == 0);
  // The last line of the output.
  const auto end = attached.output.size() - 1;
  const auto from = attached.output.find_last_of('\n', end - 1) + 1;
  const auto id = attached.output.substr(from, end - from);
  const auto timelines = at.attached + "/timeline-" + id + "-1";
  CHECK_THAT(attached.output, ContainsSubstring(timelines));
  const auto top = at.watch("top", "--once");
  CHECK_THAT(top.output, ContainsSubstring("__command_.csv"));
  check_refused(at.watch("detach", id), "may watch the job");
  CHECK(at.control("detach", id).exit_code == 0);
  for (const auto* name : {"timeline.svg", "trace.json"}) {
    const auto written = content(timelines + "/" + name);
    CHECK_THAT(written, ContainsSubstring("__command_.csv"));
    CHECK(written.find("$(") == std::string::npos);
  }
  CHECK(content(at.text) == before);
  CHECK(at.job.output().find("$(") == std::string::npos);
}

TEST_CASE("without --attach-folder no attached monitor writes") {
  const temporary_folder folder;
  const background_program job(
    fmt::format("{} train --text {} --d-model 16 --layers 2 --heads 2 --seq 8 "
                "--microbatch-size 2 --microbatches 4 --steps 100000000 "
                "--endpoint unix:{}",
                TROUPE_PROGRAM, write_text(folder), folder / "socket"),
    folder / "job");
  REQUIRE(job.writes("attach with: troupe top "));
  const auto where = "unix:" + (folder / "socket");
  for (const auto* spec : {"timeline --svg", "retro", "gradient_dump"})
    check_refused(run_troupe("attach", where, spec),
                  "start it with --attach-folder FOLDER");
}

TEST_CASE("attached monitors can't fill a job's log") {
  const guarded_run at;
  std::string globs = "nothing0";
  for (int i = 1; i < 300; ++i)
    globs += ",nothing" + std::to_string(i);
  const auto before = at.job.output().size();
  for (int i = 0; i < 60; ++i)
    live_client(at.where, content(at.watching)).attach("gap:match=" + globs);
  const auto output = at.job.output().substr(before);
  CHECK_THAT(output, ContainsSubstring("and 292 further names"));
  std::size_t lines = 0;
  for (auto position = output.find("no module or parameter");
       position != std::string::npos;
       position = output.find("no module or parameter", position + 1))
    ++lines;
  CHECK(lines >= 10);
  CHECK(lines <= 45);
}
