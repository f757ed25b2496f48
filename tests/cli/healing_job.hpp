#pragma once

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "background_program.hpp"
#include "tiny_training.hpp"

namespace troupe::testing {

inline std::string environment_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The beginnings of the lines of a log, `{"step":7,"phase":"training"`, but of
/// those of epochs.
inline std::vector<std::string> logged_outcomes(const std::string& path) {
  std::istringstream log(content(path));
  std::vector<std::string> all;
  for (std::string line; std::getline(log, line);)
    if (!line.starts_with("{\"epoch\""))
      all.push_back(line.substr(0, line.find(",\"time\"")));
  return all;
}

/// A launched job that heals.
class healing_job {
 public:
  /// `more`: flags that a plain loop does not take. `before`: the launcher's
  /// environment, as `env` takes it.
  healing_job(const std::string& launch, const std::string& train,
              const std::string& more = "--endpoint none",
              const std::string& before = "")
    : train_(train),
      run_(fmt::format("{} {} launch {} -- train --text {} {} {} --heal {}",
                       before, program, launch, at_.text, tiny, with_outputs(),
                       more),
           at_.folder / "output") {}

  /// The process of this number, once it has begun to run.
  pid_t process(int number) const {
    const auto wanted = fmt::format("RANK={}", number);
    for (int i = 0; i < 2000; ++i) {
      std::ifstream file(
        fmt::format("/proc/{0}/task/{0}/children", run_.pid()));
      for (pid_t pid = 0; file >> pid;)
        if (environment_of(pid).find('\0' + wanted + '\0') != std::string::npos)
          return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw std::runtime_error("there is no process " + wanted);
  }
  /// Waits until the output shows this step.
  bool reaches(int step) const {
    return run_.writes(fmt::format("step {}/", step));
  }
  /// Waits until so many processes have met again and run steps, before which
  /// each state has a copy.
  bool goes_on(int processes) const {
    const auto told = fmt::format("{} processes go on after step ", processes);
    if (!says(told))
      return false;
    const auto text = output();
    return reaches(std::stoi(text.substr(text.rfind(told) + told.size())) + 3);
  }
  /// Kills a process once the output shows this step.
  void kill_after(int step, int number) const {
    INFO(output());
    REQUIRE(reaches(step));
    ::kill(process(number), SIGKILL);
  }
  bool says(const std::string& text) const { return run_.writes(text); }
  /// The command of a process that joins.
  std::string joining(const std::string& more) const {
    return at_.command(with_outputs() + " " + more);
  }
  /// Waits until the job has so many processes, of which each hosts ranks.
  bool has(const std::string& socket, std::size_t processes) const {
    for (int i = 0; i < 400; ++i) {
      const auto answer =
        run_program(fmt::format("{} ranks {}", program, socket)).output;
      const auto hosts = [&] {
        for (std::size_t p = 0; p < processes; ++p)
          if (answer.find(fmt::format("\n{:<9}", p)) == std::string::npos)
            return false;
        return answer.find("none") == std::string::npos;
      };
      if (hosts()
          && answer.find(fmt::format("\n{:<9}", processes))
               == std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  int end() { return run_.end(0); }
  int end_by(int number) { return run_.end(number); }
  std::string output() const { return run_.output(); }

  /// Whether the parameters are those of a plain loop, and its steps and
  /// evaluations are logged, each once and in order.
  void check_result(int steps) const {
    const auto plain = at_.train(fmt::format(
      "--plain {} --steps {} --save-parameters {} --log-json {}", train_, steps,
      at_.folder / "plain", at_.folder / "plain.log"));
    REQUIRE(plain.exit_code == 0);
    CHECK(content(at_.folder / "healed") == content(at_.folder / "plain"));
    const auto logged = logged_outcomes(at_.folder / "log");
    const auto expected = logged_outcomes(at_.folder / "plain.log");
    const auto [there, wanted] = std::ranges::mismatch(logged, expected);
    CHECK((there == logged.end() ? "the end" : *there)
          == (wanted == expected.end() ? "the end" : *wanted));
  }
  const tiny_training& at() const { return at_; }

 private:
  std::string with_outputs() const {
    return fmt::format("{} --save-parameters {} --log-json {}", train_,
                       at_.folder / "healed", at_.folder / "log");
  }

  const tiny_training at_;
  const std::string train_;
  background_program run_;
};

}  // namespace troupe::testing
