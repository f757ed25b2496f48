#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../temporary_folder.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/membership/failure_text.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe::testing {

/// Called for each loss that a process computes; may throw.
using disturbance =
  std::function<void(trainer& run, std::int32_t process, std::int64_t step)>;

/// What came of a job.
struct job_outcome {
  std::vector<std::string> errors;  // by process
  std::vector<std::string> ends;    // by process: why the run ended early
  std::vector<std::int64_t> saves;  // by process: the step asked for, or 0
  parameter_list parameters;
  std::int64_t epoch = 0;
  std::vector<std::int32_t> hosting;  // of the last epoch
};

/// When each process of a job is asked to meet the others.
struct asked_to_meet {
  bool as_step_fails = false;
  std::optional<bool> at_once_in_2{};  // as epoch 2 begins
};

/// A job that heals, whose processes are threads of this one, with a real
/// authority: trains, and then evaluates as step 0.
class disturbed_job {
 public:
  static constexpr std::int64_t steps = 12;
  static constexpr std::int32_t processes = 3;
  static inline const small_case what{
    .ranks = 3, .microbatches = 6, .clip = 0.5};

  /// `policy`: as of --on-failure.
  disturbed_job(const std::string& policy, disturbance disturb,
                asked_to_meet asked = {})
    : authority_(parse_endpoint("unix:" + (folder_ / "authority")),
                 {.processes = processes,
                  .policy = membership::parse_failure_policy(policy)}),
      disturb_(std::move(disturb)),
      asked_(asked) {
    result_.errors.resize(processes);
    result_.ends.resize(processes);
    result_.saves.resize(processes);
  }

  job_outcome run() {
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
    const auto at = static_cast<std::size_t>(process);
    const auto member = join(process);
    auto met = member->meet({});
    trainer* started = nullptr;
    auto options = options_for(what);
    options.job = met.job;
    options.hosting = met.hosting;
    options.healing.heals_ops = member->heals_ops();
    options.healing.rejoin = [&](const auto& held, const auto& why) {
      met = member->meet(held, why);
      if (asked_.at_once_in_2 && met.epoch == 2)
        started->regroup(2, *asked_.at_once_in_2);
      return met;
    };
    std::int64_t step = 0;
    options.numerics.loss = [&, inner = options.numerics.loss](
                              const tensor_list& outputs,
                              const microbatch_data& data) {
      disturb_(*started, process, step);
      return inner(outputs, data);
    };
    trainer run(model_for(what), options);
    started = &run;
    std::optional events(
      member->on_events({.change = [&](std::int64_t ends, bool at_once) {
        run.regroup(ends, at_once);
      }}));
    for (bool is_done = false; !is_done;)
      try {
        while (!run.ended() && (step = run.progress().step + 1) <= steps) {
          run.step(small_text());
          if (run.take_save_request())
            result_.saves[at] = step;
        }
        step = 0;
        run.evaluate(small_text(), what.microbatches);
        is_done = true;
      } catch (const error& reason) {
        if (asked_.as_step_fails)
          run.regroup(run.epoch());
        if (!run.heal(reason))
          throw;
        run.regroup(run.epoch() - 1);  // a late call, of no effect
      }
    if (const auto end = run.ended())
      result_.ends[at] = end->reason;
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
  const asked_to_meet asked_;
  job_outcome result_;
};

/// The parameters that the same steps have without a job.
inline parameter_list undisturbed(std::int64_t steps) {
  auto alone = trainer_for(disturbed_job::what, nullptr);
  for (std::int64_t i = 0; i < steps; ++i)
    alone.step(small_text());
  parameter_list all;
  for (const auto& [name, value] : alone.parameters())
    all.emplace_back(name, value.clone());
  return all;
}

}  // namespace troupe::testing
