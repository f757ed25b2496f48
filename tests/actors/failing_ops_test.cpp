// Jobs that go on when an op has failed, with a real authority.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "disturbed_job.hpp"
#include "troupe/base/fail.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_bits(const job_outcome& of,
                std::int64_t steps = disturbed_job::steps) {
  for (const auto& each : of.errors)
    CHECK(each == "");
  CHECK(first_difference(undisturbed(steps), of.parameters) == "");
}

/// The losses from the third one of a step fail, so often.
disturbance failing_at(std::int64_t wanted, int times,
                       std::int32_t in_process = -1) {
  const auto seen = std::make_shared<std::atomic<int>>();
  const auto failed = std::make_shared<std::atomic<int>>();
  return [=](trainer&, std::int32_t process, std::int64_t step) {
    if (step != wanted || (in_process >= 0 && process != in_process)
        || ++*seen % 3 != 0 || *failed >= times)
      return;
    ++*failed;
    throw std::runtime_error("a bad loss");
  };
}

}  // namespace

TEST_CASE("a step whose op has failed runs again with the same bits") {
  const auto result = disturbed_job("op=retry:3/10min", failing_at(5, 1)).run();
  check_bits(result);
  CHECK(result.epoch == 2);
  CHECK(result.hosting == std::vector<std::int32_t>{0, 1, 2});
}

TEST_CASE("a rank whose op fails again and again goes to another process") {
  for (const auto& [policy, epochs] :
       {std::pair("op=retry:3/10min", 3), std::pair("op=rehost", 2)}) {
    const auto result = disturbed_job(policy, failing_at(5, 99, 2)).run();
    check_bits(result);
    CHECK(result.epoch == epochs);
    CHECK(result.hosting == std::vector<std::int32_t>{0, 1, 0});
  }
}

TEST_CASE("a step that fails in three processes stops the job") {
  const auto result =
    disturbed_job("op=rehost:99/10min", failing_at(5, 99)).run();
  for (const auto& each : result.errors)
    CHECK_THAT(each,
               ContainsSubstring("the job was stopped: a step failed in 3 "
                                 "processes: step 5, rank 2, op 2")
                 && ContainsSubstring("(stage 2, microbatch ")
                 && ContainsSubstring("a bad loss"));
}

TEST_CASE("an op that is not to be run again ends the job as without healing") {
  for (const bool is_asked : {false, true}) {
    const auto result =
      disturbed_job("op=stop", failing_at(5, 1), {.as_step_fails = is_asked})
        .run();
    for (const auto& each : result.errors)
      CHECK_THAT(each, Catch::Matchers::StartsWith("step 5, rank 2, op 2"));
  }
}

TEST_CASE("what would come again is not run again") {
  const auto result =
    disturbed_job("op=retry:9/10min", [](trainer&, std::int32_t,
                                         std::int64_t step) {
      if (step == 5)
        fail(error_code::mismatch, "the targets do not fit");
    }).run();
  for (const auto& each : result.errors)
    CHECK_THAT(each, ContainsSubstring("the targets do not fit")
                       && !ContainsSubstring("the job was stopped"));
}

TEST_CASE("what is asked for in a step that fails is done when it runs again") {
  const auto fails = failing_at(5, 1);
  const auto result =
    disturbed_job("op=retry:3/10min", [&](auto& run, auto process, auto step) {
      if (step == 5) {
        run.request_save();
        run.stop("enough", 60);
      }
      fails(run, process, step);
    }).run();
  check_bits(result, 5);
  CHECK(result.epoch == 2);
  CHECK(result.saves == std::vector<std::int64_t>{5, 5, 5});
  for (const auto& each : result.ends)
    CHECK_THAT(each, ContainsSubstring("enough after step 5"));
}

TEST_CASE("a run that heals after its end ends again, in all processes") {
  const auto fails = failing_at(0, 1);  // in the evaluation
  const auto result =
    disturbed_job("op=retry:3/10min", [&](auto& run, auto process, auto step) {
      if (step == 5)
        run.stop("enough", 0);
      fails(run, process, step);
    }).run();
  check_bits(result, 5);  // of which the last one is repeated
  CHECK(result.epoch == 2);
  for (const auto& each : result.ends)
    CHECK_THAT(each, ContainsSubstring("enough after step 5"));
}

TEST_CASE("an epoch that is to end before its actors are there ends") {
  for (const bool at_once : {false, true}) {
    const auto result = disturbed_job("op=retry:3/10min", failing_at(5, 1),
                                      {.at_once_in_2 = at_once})
                          .run();
    check_bits(result);
    CHECK(result.epoch == 3);
  }
}
