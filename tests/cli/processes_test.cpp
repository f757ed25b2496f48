#include <sys/stat.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdio>

#include "../files.hpp"
#include "../free_address.hpp"
#include "tiny_training.hpp"

using namespace troupe::testing;

namespace {

struct linked_training {
  temporary_folder folder;
  std::string token = folder.write("token", "a-secret-of-the-tests");
  std::string training;

  linked_training() {
    ::chmod(token.c_str(), 0600);
    training = " train --text " + write_text(folder)
               + " --d-model 16 --layers 8 --heads 2 --seq 8"
                 " --microbatch-size 2 --microbatches 12 --steps 3"
                 " --clip 0.5 --endpoint none --save-parameters ";
    CHECK(run_program(program + " certificates " + (folder / "set")).exit_code
          == 0);
  }

  /// The saved bits of processes joined by links of that kind; "" if they fail.
  std::string bits(const std::string& launching, const std::string& shape) {
    const auto path = folder / "job";
    std::remove(path.c_str());
    const auto run = run_program(program + launching + training + path + shape);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return content(path);
  }

  std::string flags_of(const std::string& link) const {
    if (link == "tcp")
      return " --rendezvous " + free_address() + " --job-token-file " + token;
    if (link == "tls")
      return " --rendezvous " + free_address() + " --certificates "
             + (folder / "set");
    return " --link " + link;
  }

  void check_all_links(int processes, const std::string& shape) {
    const auto plain = bits("", shape + " --plain");
    for (const std::string link : {"socket", "shared", "tcp", "tls"}) {
      INFO(processes << " processes by " << link << shape);
      const auto job =
        bits(" launch --processes " + std::to_string(processes) + " --",
             shape + flags_of(link));
      CHECK((job == plain));
    }
  }
};

}  // namespace

TEST_CASE("processes save the bits of the plain loop by every link") {
  linked_training at;
  at.check_all_links(3, " --ranks 3 --schedule eager_1f1b");
}

TEST_CASE("processes trust each other in one way") {
  for (const std::string flags :
       {"--insecure --job-token-file x", "--certificates x --insecure",
        "--certificates x --job-token-file y"}) {
    const auto run = run_program(program + " train" + tiny + "--dry-run --text "
                                 + __FILE__ + " " + flags);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output,
               Catch::Matchers::ContainsSubstring("contradict each other"));
  }
}

TEST_CASE("so they do for every schedule, 2 to 4 processes", "[.full]") {
  linked_training at;
  for (const auto processes : {2, 3, 4}) {
    const auto ranks = " --ranks " + std::to_string(processes);
    for (const std::string name : {"gpipe", "1f1b", "eager_1f1b"})
      at.check_all_links(processes, ranks + " --schedule " + name);
    for (const std::string name :
         {"interleaved_1f1b", "breadth_first", "depth_first"})
      at.check_all_links(processes,
                         ranks + " --stages-per-rank 2 --schedule " + name);
  }
  at.check_all_links(4, " --ranks 2 --data-parallel 2 --schedule 1f1b");
  at.check_all_links(3, " --ranks 3 --data-parallel 2 --schedule gpipe");
}
