// Jobs that heal on several machines, here all on this one: each has a
// launcher, and `troupe authority` decides.
#include <fmt/format.h>
#include <signal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <memory>
#include <string>

#include "../free_address.hpp"
#include "healing_job.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// Two machines with a process each, and the authority.
class job_of_machines {
 public:
  explicit job_of_machines(int steps) : steps_(steps) {
    start_authority();
    for (int i = 0; i < 2; ++i)
      machines_[i] = std::make_unique<background_program>(
        fmt::format("{} launch --authority {} --machines 2 --machine {} "
                    "--processes 1 -- train --text {} {} {} --save-parameters "
                    "{} --log-json {} --insecure --endpoint none",
                    program, where_, i, at_.text, tiny, flags(),
                    at_.folder / "healed", log()),
        at_.folder / fmt::format("machine{}", i));
  }

  void start_authority() {
    authority_ = std::make_unique<background_program>(
      fmt::format("{} authority --listen {} --record {} --insecure", program,
                  where_, at_.folder / "record"),
      at_.folder / "authority");
    REQUIRE(authority_->writes("the authority is at"));
  }
  void kill_authority() { authority_->end(SIGKILL); }

  background_program& machine(int number) { return *machines_[number]; }
  background_program& authority() { return *authority_; }

  /// The process of a machine that runs now.
  pid_t process(int number) const {
    const auto launcher = machines_[number]->pid();
    std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", launcher));
    pid_t pid = 0;
    file >> pid;
    return pid;
  }
  /// Waits until so many steps are logged.
  bool reaches(int step) const {
    for (int i = 0; i < 12000; ++i) {
      if (content(log()).find(fmt::format("\"step\":{},", step))
          != std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  bool has_plain_bits() const {
    const auto plain = at_.train(fmt::format("--plain {} --save-parameters {}",
                                             flags(), at_.folder / "plain"));
    REQUIRE(plain.exit_code == 0);
    return content(at_.folder / "healed") == content(at_.folder / "plain");
  }
  bool has_record() const {
    return std::ifstream(at_.folder / "record").good();
  }

 private:
  std::string log() const { return at_.folder / "log"; }
  std::string flags() const {
    return fmt::format(
      "--ranks 2 --dropout 0.1 --validation-fraction 0 --steps {}", steps_);
  }

  const int steps_;
  const std::string where_ = free_address();
  const tiny_training at_;
  std::unique_ptr<background_program> authority_;
  std::unique_ptr<background_program> machines_[2];
};

}  // namespace

TEST_CASE("a job on machines heals, and its authority may be killed") {
  job_of_machines job(600);
  REQUIRE(job.reaches(30));
  ::kill(job.process(1), SIGKILL);
  REQUIRE(job.machine(1).writes("is started again"));
  REQUIRE(job.authority().writes("epoch 2"));
  REQUIRE(job.reaches(150));
  job.kill_authority();
  job.start_authority();
  REQUIRE(job.reaches(250));
  ::kill(job.process(0), SIGKILL);
  for (int i = 0; i < 2; ++i) {
    const auto code = job.machine(i).end(0);
    INFO(job.machine(i).output());
    CHECK(code == 0);
  }
  CHECK(job.authority().end(0) == 0);
  CHECK_THAT(job.authority().output(),
             ContainsSubstring("was lost") && ContainsSubstring("job is done"));
  CHECK(job.has_plain_bits());
  CHECK_FALSE(job.has_record());
}

TEST_CASE("a machine that is told to end leaves the job") {
  job_of_machines job(400);
  REQUIRE(job.reaches(30));
  CHECK(job.machine(0).end(SIGTERM) == 0);
  const auto code = job.machine(1).end(0);
  INFO(job.machine(1).output());
  CHECK(code == 0);
  CHECK(job.has_plain_bits());
}

TEST_CASE("a process tells that it waits for the authority, and for others") {
  const tiny_training at;
  const auto where = free_address();
  const background_program machine(
    program + " launch --machines 2 --machine 1 --processes 1 --authority "
      + where + " -- train --insecure --ranks 2 --text " + at.text + tiny,
    at.folder / "output");
  REQUIRE(machine.writes("waiting: the job's authority at tcp:" + where));
  const background_program authority(
    program + " authority --insecure --listen " + where,
    at.folder / "authority");
  CHECK(machine.writes("waiting for a part in the job"));
}

TEST_CASE("an authority says what is wrong with its flags") {
  const temporary_folder folder;
  const std::string listens = " authority --listen 127.0.0.1:0 ";
  const auto refuses = [](const std::string& command, const std::string& why) {
    const auto run = run_program(program + command);
    INFO(command << "\n" << run.output);
    CHECK(run.exit_code != 0);
    CHECK_THAT(run.output, ContainsSubstring(why));
  };
  refuses(listens, "--job-token-file");
  refuses(listens + ("--insecure --record " + folder.write("no", "{}")),
          "no record of an authority");
  refuses(listens + "--insecure --record /nowhere/record",
          "no file can be made in /nowhere: No such file");
  refuses(listens + ("--insecure --record x --etcd etcd://one/job"),
          "--record and --etcd");
  refuses(" authority --listen 127.0.0.1:29400 --insecure --etcd etcd://one",
          "a name of the job");
  refuses(listens + ("--insecure --etcd etcd://one/job"), "port 0");
  refuses(" authority --listen 127.0.0.1:29400 --insecure --announce one:1",
          "--etcd");
  const auto launches = std::string(" launch --processes 1 ");
  refuses(launches + "--machines 2 -- train", "troupe authority");
  refuses(launches + "--machine 1 -- train", "counted from 0");
  refuses(launches + "--authority one:1 --spares 1 -- train", "--spares");
  refuses(
    launches + "--machines 2 --machine 1 --authority one:1 -- train --nonsense",
    "process 1 was the first to fail");
}
