// Jobs that go on when an op has failed, with a real authority.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../temporary_folder.hpp"
#include "job_trainings.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/membership/failure_text.hpp"
#include "troupe/engine/transport/mesh.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t steps = 12;
constexpr std::int32_t processes = 3;
const small_case what{.ranks = 3, .microbatches = 6, .clip = 0.5};

/// Called for each loss that a process computes in a step; may throw.
using disturbance = std::function<void(std::int32_t process, std::int64_t)>;

/// What came of a job.
struct outcome {
  std::vector<std::string> errors;  // by process
  parameter_list parameters;
  std::int64_t epoch = 0;
  std::vector<std::int32_t> hosting;  // of the last epoch
};

/// A job whose processes are threads of this one.
class disturbed_job {
 public:
  /// `is_asked`: each process is asked to meet the others when a step fails.
  disturbed_job(const std::string& policy, disturbance disturb,
                bool is_asked = false)
    : authority_(parse_endpoint("unix:" + (folder_ / "authority")),
                 {.processes = processes,
                  .policy = membership::parse_failure_policy(policy)}),
      disturb_(std::move(disturb)),
      is_asked_(is_asked) {
    result_.errors.resize(processes);
  }

  outcome run() {
    std::vector<std::thread> all;
    for (std::int32_t p = 0; p < processes; ++p)
      all.emplace_back([this, p] {
        try {
          live(p);
        } catch (const std::exception& reason) {
          result_.errors[static_cast<std::size_t>(p)] = reason.what();
        }
      });
    for (auto& each : all)
      each.join();
    return std::move(result_);
  }

 private:
  void live(std::int32_t process) {
    const auto member = join(process);
    auto met = member->meet({});
    auto options = options_for(what);
    options.job = met.job;
    options.hosting = met.hosting;
    options.healing.heals_ops = member->heals_ops();
    options.healing.rejoin = [&](const auto& held, const auto& why) {
      met = member->meet(held, why);
      return met;
    };
    std::int64_t step = 0;
    options.numerics.loss = [&, inner = options.numerics.loss](
                              const tensor_list& outputs,
                              const microbatch_data& data) {
      disturb_(process, step);
      return inner(outputs, data);
    };
    trainer run(model_for(what), options);
    std::optional events(
      member->on_events({.change = [&](std::int64_t ends, bool at_once) {
        run.regroup(ends, at_once);
      }}));
    while ((step = run.progress().step + 1) <= steps)
      try {
        run.step(small_text());
      } catch (const error& reason) {
        if (is_asked_)
          run.regroup(run.epoch());
        if (!run.heal(reason))
          throw;
        run.regroup(run.epoch() - 1);  // a late call, of no effect
      }
    const auto all = run.gather_parameters();
    events.reset();
    if (process == 0) {
      result_.epoch = met.epoch;
      result_.hosting = met.hosting;
      for (const auto& [name, value] : all)
        result_.parameters.emplace_back(name, value.clone());
    }
    member->finish();
  }

  std::shared_ptr<job_membership> join(std::int32_t process) const {
    membership_options options{.authority = authority_.where(),
                               .pipeline_ranks = what.ranks,
                               .hosting = {0, 1, 2}};
    auto& place = options.joining.place;
    place.launcher = "test";
    place.process = process;
    place.processes = place.local_processes = processes;
    options.joining.rendezvous = "unix:" + (folder_ / "job");
    return std::make_shared<job_membership>(options);
  }

  const temporary_folder folder_;
  authority_server authority_;
  const disturbance disturb_;
  const bool is_asked_;
  outcome result_;
};

void check_bits(const outcome& of) {
  for (const auto& each : of.errors)
    CHECK(each == "");
  auto alone = trainer_for(what, nullptr);
  for (std::int64_t i = 0; i < steps; ++i)
    alone.step(small_text());
  CHECK(first_difference(alone.parameters(), of.parameters) == "");
}

/// The losses from the third one of a step fail, so often.
disturbance failing_at(std::int64_t wanted, int times,
                       std::int32_t in_process = -1) {
  const auto seen = std::make_shared<std::atomic<int>>();
  const auto failed = std::make_shared<std::atomic<int>>();
  return [=](std::int32_t process, std::int64_t step) {
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
      disturbed_job("op=stop", failing_at(5, 1), is_asked).run();
    for (const auto& each : result.errors)
      CHECK_THAT(each, Catch::Matchers::StartsWith("step 5, rank 2, op 2"));
  }
}

TEST_CASE("what would come again is not run again") {
  const auto result =
    disturbed_job("op=retry:9/10min", [](std::int32_t, std::int64_t step) {
      if (step == 5)
        fail(error_code::mismatch, "the targets do not fit");
    }).run();
  for (const auto& each : result.errors)
    CHECK_THAT(each, ContainsSubstring("the targets do not fit")
                       && !ContainsSubstring("the job was stopped"));
}
