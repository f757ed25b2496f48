// Ops that fail in a process of a job, and what --on-failure does about it.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "healing_job.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

// A preloaded library comes before the sanitizers' own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

/// Lets an op of a job of two processes fail while it trains.
class failing_job {
 public:
  explicit failing_job(const std::string& launch)
    : job_("--processes 2 " + launch,
           "--ranks 2 --steps 200 --validation-fraction 0", "--endpoint none",
           fmt::format("env LD_PRELOAD={} FAILING_OP={}", TROUPE_FAILING_OP,
                       file_)) {}

  void fail_once_after(int step) {
    REQUIRE(job_.reaches(step));
    std::ofstream file(file_);
  }
  healing_job& job() { return job_; }

 private:
  const temporary_folder folder_;
  const std::string file_ = folder_ / "fail";
  healing_job job_;
};

}  // namespace

TEST_CASE("an op that fails in a process runs again with the same bits") {
  for (const auto* policy : {"op=retry:3/10min", "op=rehost"}) {
    failing_job failing(fmt::format("--on-failure {}", policy));
    for (const int step : {40, 120})
      failing.fail_once_after(step);
    auto& job = failing.job();
    const auto code = job.end();
    INFO(policy << '\n' << job.output());
    CHECK(code == 0);
    CHECK_THAT(job.output(), ContainsSubstring("add_ was made to fail"));
    CHECK_THAT(job.output(), ContainsSubstring("2 processes go on after step"));
    job.check_result(200);
  }
}

TEST_CASE("an op that fails ends a job that heals losses alone") {
  failing_job failing("");
  failing.fail_once_after(40);
  auto& job = failing.job();
  const auto code = job.end();
  INFO(job.output());
  CHECK(code != 0);
  CHECK_THAT(job.output(), ContainsSubstring("add_ was made to fail"));
  CHECK_THAT(job.output(), !ContainsSubstring("go on after step"));
}

#endif
