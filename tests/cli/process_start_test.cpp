// Processes with closed descriptors, with signals and with limits.

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "background_program.hpp"
#include "stalled_pipe.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using namespace troupe::testing;

namespace {

struct some_run {
  std::string with(const std::string& flags) const {
    return fmt::format(
      "XDG_RUNTIME_DIR={} {} train --text {} --d-model 16 --layers 2 --heads 2 "
      "--seq 8 --microbatch-size 2 --microbatches 4 {}",
      folder / "", TROUPE_PROGRAM, text, flags);
  }
  int files_named(const std::string& part) const {
    int count = 0;
    for (const auto& each :
         std::filesystem::recursive_directory_iterator(folder / ""))
      count += each.path().filename().string().find(part) != std::string::npos;
    return count;
  }

  temporary_folder folder;
  std::string text = write_text(folder);
  std::string output = folder / "output";
};

/// Without descriptors that this process may have inherited beyond the standard
/// streams.
program_result run_limited(const std::string& limit,
                           const std::string& command) {
  return run_program("( exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit "
                     + limit + "; " + command + " )");
}

/// The end of a program that runs out of memory without catching the exception.
program_result end_uncaught(troupe::cli::error_reporter report,
                            const std::string& output) {
  const auto child = ::fork();
  if (child == 0) {
    const auto file = ::open(output.c_str(), O_CREAT | O_WRONLY, 0600);
    ::dup2(file, STDERR_FILENO);
    troupe::cli::prepare_process(report);
    try {
      throw std::bad_alloc();
    } catch (...) {
      std::terminate();
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          content(output)};
}

}  // namespace

TEST_CASE("with closed descriptors nothing lands in the files of a run") {
  const some_run at;
  const auto log = at.folder / "log.json", csv = at.folder / "log.csv";
  const auto run = run_program(
    "( " + at.with("--steps 3 --log-json " + log + " --sink csv:" + csv)
    + " <&- >&- )");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  std::istringstream lines(content(log));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK(line.starts_with('{'));
  CHECK(count >= 3);
  CHECK(content(csv).starts_with("step,phase,name,value\r\n"));
}

TEST_CASE("output that can't be written is an error, whatever the command") {
  const some_run at;
  const auto csv = at.folder.write("x.csv", "0F0,0B0\n");
  for (const auto& command :
       {std::string{"--help"}, std::string{"--version"}, std::string{"plan"},
        std::string{"simulate"}, "verify " + csv, std::string{"top --help"},
        std::string{"train --print-config"},
        "train --dry-run --text " + at.text}) {
    const auto run_to = [&](const std::string& where) {
      return run_program(
        fmt::format("( {} {} {} )", TROUPE_PROGRAM, command, where));
    };
    INFO(command);
    const auto full = run_to(">/dev/full"), closed = run_to(">&-");
    CHECK(full.exit_code == 1);
    CHECK_THAT(full.output, ContainsSubstring("troupe: error: standard output "
                                              "can't be written: No space"));
    CHECK(closed.exit_code == 1);
    CHECK_THAT(closed.output, ContainsSubstring("can't be written: Bad file"));
    CHECK(run_to("| head -1").exit_code == 0);
  }
}

TEST_CASE("certificates are made though nobody reads that they are") {
  const temporary_folder folder;
  const auto run = run_program(
    fmt::format("( {} certificates {} >&- )", TROUPE_PROGRAM, folder / "made"));
  INFO(run.output);
  CHECK(run.exit_code == 0);
}

TEST_CASE("too little address space is an error that says so") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("sanitizers reserve terabytes of address space");
#endif
  const some_run at;
  for (const auto* kib : {"50000", "390000", "440000", "524287"}) {
    const auto run =
      run_limited(std::string{"-v "} + kib, "env " + at.with("--steps 1"));
    INFO(kib << " " << run.output);
    CHECK(run.exit_code == 1);
    CHECK_THAT(run.output, ContainsSubstring(fmt::format(
                             "is limited to {} KiB (ulimit -v)", kib)));
  }
}

TEST_CASE("too few open files are an error that names the limit") {
  const some_run at;
  const auto check_refused = [&](int files, const std::string& command) {
    const auto run = run_limited(fmt::format("-n {}", files), command);
    INFO(command << "\n" << run.output);
    CHECK(run.exit_code == 1);
    CHECK_THAT(run.output,
               ContainsSubstring(fmt::format("(ulimit -n is {})", files)));
  };
  const std::string troupe = TROUPE_PROGRAM;
  for (const auto files : {4, 10, 62}) {
    check_refused(files, "env " + at.with("--steps 1"));
    for (const auto* command :
         {" launch -- train", " attach overflow", " top", " events"})
      check_refused(files, troupe + command);
    CHECK(run_limited(fmt::format("-n {}", files), troupe + " plan").exit_code
          == 0);
  }
  check_refused(64, "exec 3<&0 4<&0; " + troupe + " top");
  check_refused(64, troupe + " launch --processes 40 -- /bin/sleep 600");
}

TEST_CASE("the soft limit of open files is raised to the hard one") {
  const some_run at;
  const auto run =
    run_limited("-S -n 30", "env " + at.with("--steps 1 --endpoint none"));
  INFO(run.output);
  CHECK(run.exit_code == 0);
}

TEST_CASE("an uncaught exception is reported and dumps no core") {
  const temporary_folder folder;
  const auto ended = end_uncaught(troupe::cli::report_errors, folder / "told");
  CHECK(ended.exit_code == 1);
  CHECK_THAT(ended.output,
             ContainsSubstring("troupe: error: out of memory: the machine")
               && ContainsSubstring("(ulimit -v)\n"));
  const auto untold = end_uncaught(
    [](const std::function<int()>& work) { return work(); }, folder / "untold");
  CHECK(untold.exit_code == 1);
  CHECK_THAT(untold.output, ContainsSubstring("out of memory\n"));
}

TEST_CASE("a command whose reader has left ends without a message") {
  const some_run at;
  const auto csv = at.folder.write("x.csv", "0F0,0B0\n");
  for (const auto& command :
       {std::string{"--help"}, std::string{"train --help-all"},
        std::string{"env"}, std::string{"plan"}, std::string{"compare"},
        "verify " + csv, std::string{"completion bash"},
        std::string{"train --print-config"}}) {
    const auto run = run_program(
      fmt::format("bash -c 'exec 3> >(:); wait $!; {} {} >&3; echo code $?'",
                  TROUPE_PROGRAM, command));
    INFO(command);
    CHECK(run.output == "code 141\n");
  }
}

TEST_CASE("a reader that leaves does not end the training, and is reported") {
  const some_run at;
  const auto saved = at.folder / "saved";
  const auto run =
    run_program("{ " + at.with("--steps 300 --save-parameters " + saved)
                + "; echo code $? >&2; } 2> " + at.output + " | head -1");
  const auto output = content(at.output);
  INFO(output);
  CHECK_THAT(output,
             ContainsSubstring("the run goes on, and ends with exit code 141\n")
               && EndsWith("code 141\n") && !ContainsSubstring("error"));
  CHECK(std::filesystem::file_size(saved) > 0);
}

TEST_CASE(
  "a file beyond the size limit is an error and leaves no partial file") {
  const some_run at;
  const auto run = run_program(
    "ulimit -f 4; "
    + at.with("--steps 1 --save-parameters " + (at.folder / "saved")));
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("File too large"));
  CHECK(at.files_named("saved") == 0);
}

TEST_CASE("a closed terminal ends a run in order, but not under nohup") {
  const some_run at;
  background_program run("env " + at.with("--steps 100000000"), at.output);
  REQUIRE(run.writes("step 1/"));
  CHECK(run.end(SIGHUP) == 129);
  CHECK_THAT(run.output(),
             ContainsSubstring("its terminal was closed (SIGHUP)"));
  const some_run other;
  background_program detached(
    "sh -c \"trap '' HUP; exec env " + other.with("--steps 100000000") + "\"",
    other.output);
  REQUIRE(detached.writes("step 1/"));
  ::kill(detached.pid(), SIGHUP);
  CHECK(detached.end(SIGTERM) == 143);
}

TEST_CASE("Ctrl-C while processes meet says so, and leaves no socket") {
  const some_run at;
  background_program first(
    "env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 RANK=0 TROUPE_JOB=1 "
      + at.with("--ranks 2 --steps 1"),
    at.output);
  REQUIRE(first.writes("waiting for process 1"));
  REQUIRE(at.files_named(".sock") >= 1);
  CHECK(first.end(SIGINT) == 130);
  CHECK_THAT(first.output(), ContainsSubstring("were meeting"));
  CHECK(at.files_named(".sock") == 0);
}

TEST_CASE("a log that another job writes is refused, and loses no line") {
  const some_run at;
  const auto log = at.folder / "log.json";
  background_program first(
    "env " + at.with("--steps 100000000 --log-json " + log), at.output);
  REQUIRE(first.writes("step 1/"));
  const auto second = run_program(at.with("--steps 1 --log-json " + log));
  INFO(second.output);
  CHECK(second.exit_code == 1);
  CHECK_THAT(second.output, ContainsSubstring("another job writes this file"));
  first.end(SIGINT);
  CHECK_THAT(content(log), ContainsSubstring("\"step\":1,"));
}

TEST_CASE("an empty value is refused, whatever the flag") {
  const some_run at;
  for (const auto* flag :
       {"--initial", "--save-parameters", "--save-initial", "--log-json",
        "--trace", "--timeline", "--dashboard", "--dashboard-token-file",
        "--endpoint", "--endpoint-token-file", "--endpoint-control-token-file",
        "--attach-folder", "--job-token-file", "--rendezvous", "--monitor",
        "--sink", "--schedule", "--text"}) {
    const auto run =
      run_program(at.with(fmt::format("--steps 1 {} \"\"", flag)));
    INFO(flag << "\n" << run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring(std::string(flag) + ": ")
                             && ContainsSubstring("is empty"));
  }
  const auto config = at.folder.write("config.toml", "initial = \"\"\n");
  const auto run = run_program(at.with("--config " + config));
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("initial: the value is empty"));
  CHECK(run_program(at.with("--steps 1 --prompt \"\"")).exit_code == 0);
  CHECK(run_troupe("top", "--token-file \"\"").exit_code == 2);
}

TEST_CASE("a second signal ends a run whose output is not read") {
  const some_run at;
  const stalled_pipe pipe(at.folder / "pipe");
  background_program run(
    "env " + at.with("--steps 1000000 --endpoint none --slow-load 1e-9"),
    pipe.path());
  REQUIRE(pipe.fills());
  CHECK(run.insist(SIGTERM, 20) == 128 + SIGTERM);
}

TEST_CASE("one signal ends a run whose output is not read, in seconds") {
  const some_run at;
  const stalled_pipe pipe(at.folder / "pipe");
  background_program run("env " + at.with("--steps 1000000 --endpoint none 2>")
                           + (at.folder / "errors"),
                         pipe.path());
  REQUIRE(pipe.fills());
  const auto signalled = std::chrono::steady_clock::now();
  CHECK(run.end(SIGTERM) == 128 + SIGTERM);
  CHECK(std::chrono::steady_clock::now() - signalled
        < std::chrono::seconds(15));
  CHECK_THAT(
    content(at.folder / "errors"),
    ContainsSubstring("this pipe is full, and its reader is not reading")
      && ContainsSubstring("ended by SIGTERM"));
}

TEST_CASE("launch forwards a signal even if its output is not read") {
  // Prefixed by process numbers, short lines take several times as many bytes.
  for (const auto* lines :
       {"while :; do echo a line of text; done", "yes ''"}) {
    CAPTURE(lines);
    const temporary_folder folder;
    const stalled_pipe pipe(folder / "pipe");
    const auto script = folder.write("script", lines);
    background_program job(fmt::format("{} launch --processes 2 -- /bin/sh {}",
                                       TROUPE_PROGRAM, script),
                           pipe.path());
    REQUIRE(pipe.fills());
    CHECK(job.end(SIGTERM) == 128 + SIGTERM);
  }
}
