// Plan files: writing, verifying, simulating and training them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

struct plan_file : tiny_training {
  explicit plan_file(const std::string& flags = "") {
    const auto run = run_program(program + " plan --microbatches 4 " + flags
                                 + " --format plan -o " + path);
    INFO(run.output);
    REQUIRE(run.exit_code == 0);
  }
  void edit(const std::string& from, const std::string& to) const {
    auto text_now = content(path);
    const auto at = text_now.find(from);
    REQUIRE(at != std::string::npos);
    folder.write("step.plan", text_now.replace(at, from.size(), to));
  }

  std::string path = folder / "step.plan";
};

}  // namespace

TEST_CASE("a plan is a file that the other commands read") {
  const plan_file at("--data-parallel 2 --global-norm");
  const auto proof = run_program(program + " verify --plan " + at.path);
  CHECK(proof.exit_code == 0);
  CHECK_THAT(proof.output, ContainsSubstring("progress"));
  const auto priced = run_program(program + " simulate --plan " + at.path);
  CHECK(priced.exit_code == 0);
  const auto saved = at.folder / "given", expected = at.folder / "expected";
  const auto run = at.train("--plan " + at.path
                              + " --data-parallel 2 --clip 1 "
                                "--save-parameters "
                              + saved);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK(at.train("--data-parallel 2 --clip 1 --save-parameters " + expected)
          .exit_code
        == 0);
  CHECK(content(saved) == content(expected));
}

TEST_CASE("a plan that is not legal is refused before any work") {
  const plan_file at;
  const auto refused = [&](const std::string& flags, const std::string& why,
                           int code) {
    for (const auto* more : {" --dry-run", " --save-initial never"}) {
      const auto run = at.train("--plan " + at.path + " " + flags + more);
      INFO(run.output);
      CHECK(run.exit_code == code);
      CHECK_THAT(run.output, ContainsSubstring(why));
    }
  };
  refused("--schedule gpipe", "--schedule", 2);
  refused("--ranks 3", "omit the flag", 2);
  refused("--clip 1", "`global_norm 1` into it, as troupe plan --global-norm",
          2);
  at.edit("0F1 ", "");
  refused("", "step.plan", 1);
  at.edit("troupe plan 1", "troupe plan 7");
  refused("", "line 1", 1);
  at.folder.write("step.plan", "0F0,0B0\n");
  refused("", "not a plan", 1);
}
