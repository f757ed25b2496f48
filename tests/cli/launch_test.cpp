#include <sys/stat.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

struct launched_training : tiny_training {
  std::string training(const std::string& flags) const {
    return " train --text " + text + tiny + "--endpoint none " + flags;
  }
  auto launch(int processes, const std::string& flags) const {
    return run_program(program + " launch --processes "
                       + std::to_string(processes) + " --" + training(flags));
  }
};

}  // namespace

TEST_CASE("launched processes save the bits of the plain loop") {
  const launched_training at;
  const auto plain = at.folder / "plain", job = at.folder / "job";
  const std::string shape = "--ranks 2 --data-parallel 2 --save-parameters ";
  CHECK(run_program(program + at.training("--plain " + shape + plain)).exit_code
        == 0);
  for (const std::string link : {" --link socket", " --link shared"}) {
    const auto run = at.launch(4, shape + job + link + " --sample 5");
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring("[0] step 3/3 loss ")
                             && ContainsSubstring("[0] sample: And ")
                             && ContainsSubstring("(troupe launch)"));
    CHECK(content(job) == content(plain));
    std::filesystem::remove(job);
  }
}

TEST_CASE("parameters of many bytes are saved though the others are done") {
  const launched_training at;
  const auto job = at.folder / "job";
  const auto run =
    at.launch(2, "--vocabulary 200000 --ranks 2 --save-parameters " + job);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK(content(job).size() > (std::size_t{20} << 20));
}

TEST_CASE("what can't be saved fails all processes, and the launcher") {
  const launched_training at;
  const auto run = at.launch(2, "--ranks 2 --save-parameters /dev/full");
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("process 0 was the first to"));
}

TEST_CASE("processes started with other settings learn the difference") {
  launched_training at;
  const auto other = write_text(at.folder, "at the end, ", "other");
  const auto both = [&](const std::string& first, const std::string& second) {
    const std::string each = " train" + tiny
                             + "--endpoint none --ranks 2 --rendezvous unix:"
                             + (at.folder / "job") + " ";
    const std::string world = "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 ";
    return run_program("( " + world + "RANK=0 " + program + each + first + " & "
                       + world + "RANK=1 " + program + each + second
                       + "; wait )");
  };
  const auto text = "--text " + at.text;
  CHECK_THAT(both(text, text + " --lr 0.1").output,
             ContainsSubstring("--lr is 0.1 there"));
  // The last value of a repeated flag is used.
  CHECK_THAT(both(text + " --seed 1", text + " --seed 1 --seed 2").output,
             ContainsSubstring("--seed is 2 there, but 1 in process 0"));
  CHECK_THAT(both(text, text + " --steps 2 --steps 9").output,
             ContainsSubstring("--steps is 9 there"));
  const auto saving = text + " --save-parameters " + (at.folder / "saved");
  CHECK_THAT(both(saving, text).output,
             ContainsSubstring("--save-parameters is not given there"));
  CHECK_THAT(both(text, text + " --replan-every 1").output,
             ContainsSubstring("--replan-every is 1 there"));
  // Process 0 writes for all.
  const auto logging = text + " --log-json " + (at.folder / "log");
  CHECK_THAT(both(text, logging).output,
             ContainsSubstring("--log-json is given there, but not given in "
                               "process 0"));
  CHECK(both(logging, text).exit_code == 0);
  CHECK(content(at.folder / "log").find("\"step\":3") != std::string::npos);
  // The same path with different contents, as on two machines.
  const auto inside = [&](const char* name) {
    ::mkdir((at.folder / name).c_str(), 0700);
    return at.folder / name;
  };
  std::filesystem::copy(at.text, inside("a") + "/text");
  std::filesystem::copy(other, inside("b") + "/text");
  const std::string world = "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 ";
  const std::string each = tiny + "--endpoint none --ranks 2 --rendezvous unix:"
                           + (at.folder / "job") + " ";
  const auto apart = [&](const std::string& flags) {
    return run_program("( cd " + (at.folder / "a") + "; " + world + "RANK=0 "
                       + program + " train" + each + flags + " & cd "
                       + (at.folder / "b") + "; " + world + "RANK=1 " + program
                       + " train" + each + flags + "; wait )");
  };
  CHECK_THAT(apart("--text text").output,
             ContainsSubstring("what text holds is 6000 bytes"));
  std::string mask(std::filesystem::file_size(at.text), '\1');
  at.folder.write("a/mask", mask);
  mask[1] = '\0';
  at.folder.write("b/mask", mask);
  CHECK_THAT(apart(text + " --loss-mask mask").output,
             ContainsSubstring("what mask holds is 8500 bytes"));
}

TEST_CASE("a job's secret must be long and readable by its owner alone") {
  const launched_training at;
  const auto secret = at.folder.write("secret", "short");
  const auto flags = "--ranks 2 --job-token-file " + secret;
  ::chmod(secret.c_str(), 0644);
  CHECK_THAT(at.launch(2, flags).output, ContainsSubstring("chmod 600"));
  ::chmod(secret.c_str(), 0600);
  CHECK_THAT(at.launch(2, flags).output,
             ContainsSubstring("at least 16 characters"));
  const auto long_one = at.folder.write("long", "a-secret-of-the-tests");
  ::chmod(long_one.c_str(), 0600);
  const auto run = at.launch(2, "--ranks 2 --job-token-file " + long_one);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("the job's secret or certificates are not asked "
                               "for, and may differ"));
}

TEST_CASE("launch says what it can't run") {
  const auto run = run_program(program + " launch --processes 2 -- nothing");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("neither a command of troupe nor"));
  const auto words =
    run_program(program + " launch --processes 2 train --ranks 2");
  CHECK(words.exit_code == 2);
  CHECK_THAT(words.output, ContainsSubstring("of each process after --"));
}

TEST_CASE("common output of all processes is printed once") {
  const launched_training at;
  for (const std::string flag : {"--dry-run", "--print-config"}) {
    const auto run = at.launch(2, "--ranks 2 --momentum 0.5 " + flag);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, !ContainsSubstring("[1]"));
  }
}

TEST_CASE("processes say whom they wait for, and end when one has died") {
  const launched_training at;
  // Process 1 dies once process 0 has logged that it waits, or after a minute.
  const auto log = at.folder / "said";
  const auto all = run_program(
    program + " launch --processes 2 -- /bin/sh -c 'if [ $RANK = 1 ]; then for "
    "i in $(seq 600); do grep -q waiting " + log + " && exit 3; sleep 0.1; "
    "done; exit 4; fi; " + program + at.training("--ranks 2") + " 2>&1 | tee "
    + log + "'");
  INFO(all.output);
  CHECK(all.exit_code == 3);
  CHECK_THAT(all.output, ContainsSubstring("waiting for process 1 of 2"));
  CHECK_THAT(all.output, ContainsSubstring("process 1 was the first to fail"));
}

TEST_CASE("several processes don't measure a split, each by itself") {
  const tiny_training at;
  const auto run =
    run_program("env RANK=0 WORLD_SIZE=2 " + program
                + " train --dry-run --split measured --text " + at.text);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("--split measured requires one"));
}
