#include "job_trainings.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

#include "../engine/transport/joined_meshes.hpp"

namespace troupe::testing {

job_meeting no_rejoin(const std::vector<held_rank>&,
                      const std::optional<failed_op>&) {
  throw std::logic_error("is not called");
}

job_result train_in_job(const small_case& what, std::int32_t processes,
                        int steps) {
  job_result result;
  const auto program = [&](const std::shared_ptr<mesh>& job) {
    auto run = trainer_for(what, job);
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i)
      losses.push_back(run.step(small_text()).summary.losses.at(0).value);
    losses.push_back(run.evaluate(small_text(), 4).losses.at(0).value);
    run.check_replicas();
    auto all = run.gather_parameters();
    if (job && !job->place().leads())
      return;
    for (auto& [name, value] : all)
      result.parameters.emplace_back(name, value.clone());
    result.losses = losses;
  };
  if (processes == 1) {
    program(nullptr);
    return result;
  }
  joined_meshes meshes(processes);
  for (const auto& error : in_all(meshes, program))
    CHECK(error == "");
  return result;
}

void check_job_bits(const small_case& what, std::int32_t processes) {
  INFO(describe(what) << " in " << processes << " processes");
  auto alone_case = what;
  alone_case.hosting.clear();
  const auto alone = train_in_job(alone_case, 1);
  const auto job = train_in_job(what, processes);
  CHECK(first_difference(alone.parameters, job.parameters) == "");
  CHECK(alone.losses == job.losses);
}

}  // namespace troupe::testing
