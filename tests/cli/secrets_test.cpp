// Secrets do not appear in logs, errors, files or lists of processes.
#include <sys/stat.h>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "../free_address.hpp"
#include "../temporary_folder.hpp"
#include "background_program.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

const std::string job_secret = "secret-of-the-job-4f1c8a";
const std::string endpoint_secret = "secret-of-the-endpoint-77b2";
const std::string page_secret = "secret-of-the-dashboard-09ee";

void check_silent(const std::string& where, const std::string& text) {
  INFO(where);
  for (const auto& secret : {job_secret, endpoint_secret, page_secret})
    CHECK(text.find(secret) == std::string::npos);
}

/// Checks the arguments and environments of all processes that run `program`;
/// returns their number.
int check_processes(const std::string& program) {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc")) {
    const auto arguments = content(each.path() / "cmdline");
    if (arguments.find(program) == std::string::npos)
      continue;
    ++count;
    check_silent("cmdline", arguments);
    check_silent("environ", content(each.path() / "environ"));
    for (const auto& thread :
         std::filesystem::directory_iterator(each.path() / "task"))
      check_silent("comm", content(thread.path() / "comm"));
  }
  return count;
}

struct secret_files {
  std::string write(const char* name, const std::string& secret) const {
    auto path = folder.write(name, secret + "\n");
    ::chmod(path.c_str(), 0600);
    return path;
  }

  temporary_folder folder;
  std::string job = write("job-secret", job_secret);
  std::string endpoint = write("endpoint-secret", endpoint_secret);
  std::string page = write("page-secret", page_secret);
  std::string text = folder.write("text", std::string(8000, 'a'));

  std::string training(const char* steps) const { return training(steps, job); }
  std::string training(const char* steps, const std::string& job_token) const {
    return fmt::format(
      "train --text {} --ranks 2 --d-model 16 --layers 2 --heads 2 --seq 8"
      " --microbatch-size 2 --microbatches 4 --log-level debug --steps {}"
      " --job-token-file {} --endpoint-token-file {} --dashboard-token-file {}"
      " --endpoint tcp:127.0.0.1:0 --dashboard 127.0.0.1:0",
      text, steps, job_token, endpoint, page);
  }
};

}  // namespace

TEST_CASE("a live job's secrets appear in no process list, log or error") {
  const secret_files at;
  background_program job(
    fmt::format("{} launch --processes 2 -- {} --log-json {}", TROUPE_PROGRAM,
                at.training("100000000"), at.folder / "log.json"),
    at.folder / "output");
  REQUIRE(job.writes("attach with: troupe top "));
  CHECK(check_processes(at.job) == 3);
  const auto output = job.output();
  const auto from = output.find("troupe top ") + 11;
  const auto where = output.substr(from, output.find(' ', from) - from);
  const auto wrong = at.write("wrong", "another-secret-altogether");
  for (const auto& flags :
       {std::string("--once"), "--once --token-file " + wrong,
        "--once --token-file " + at.endpoint}) {
    const auto client = run_troupe("top", where, flags);
    check_silent("client", client.output);
  }
  job.end(SIGINT);
  check_silent("output", job.output());
  check_silent("log", content(at.folder / "log.json"));
}

TEST_CASE("secrets are in no error, setting or file of a job that fails") {
  const secret_files at;
  check_silent("settings",
               run_troupe("", at.training("1") + " --print-config").output);
  // The other process has another token and other settings.
  const auto wrong = at.write("wrong", "another-secret-altogether");
  const auto meeting = free_address();
  const auto start = [&](int process, const std::string& token_file) {
    return fmt::format(
      "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 RANK={} {} {} --patience 3 "
      "--rendezvous {}",
      process, TROUPE_PROGRAM, at.training("2", token_file), meeting);
  };
  const auto run = run_program(
    fmt::format("( {} & {}; wait )", start(0, at.job), start(1, wrong)));
  CHECK_THAT(run.output, ContainsSubstring("another token"));
  check_silent("output", run.output);
  CHECK(run.output.find("another-secret") == std::string::npos);
  for (const auto& each :
       std::filesystem::recursive_directory_iterator(at.folder / "."))
    if (each.is_regular_file()
        && each.path().filename().string().find("secret") == std::string::npos)
      check_silent(each.path(), content(each.path()));
}
