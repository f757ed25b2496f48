#include "troupe/actors/job/remote_links.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../engine/transport/joined_meshes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/generation.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Two ranks in two processes, of which this is the first, in a step that
/// generates four positions of two microbatches, of three rows and of none.
struct generating {
  generating() {
    auto step = std::make_shared<step_context>();
    step->serial = 5;
    step->plan = generated;
    step->settings.generation =
      std::make_shared<const generation_step>(generation_step{
        .batches = {7, generation_step::no_batch}, .rows = {3, 0}});
    links->begin(step);
  }
  void refuses(chosen_tokens bad, const char* what, std::int32_t sender = 1) {
    CHECK_THROWS_MATCHES(links->check(sender, bad), error,
                         MessageMatches(ContainsSubstring(what)));
  }

  joined_meshes meshes{2};
  std::shared_ptr<const plan> generated =
    std::make_shared<const plan>(compile(generation_schedule(
      make_schedule("1f1b", {.ranks = 2, .microbatches = 2}).placement, 2, 4)));
  std::shared_ptr<remote_links> links = std::make_shared<remote_links>(
    meshes.all[0], job_layout{0, 2, 1, 2}, 1,
    std::make_shared<const job_plans>(std::vector{generated}));
  chosen_tokens good{5, 0, {0, 3}, 0, {1, 2, 3}};
};

}  // namespace

TEST_CASE("tokens that another process can't have chosen are refused") {
  generating job;
  job.links->check(1, job.good);
  auto ended = job.good;
  ended.ids.clear();
  job.links->check(1, ended);
  auto late = job.good;
  late.serial = 4;
  job.links->check(1, late);

  job.refuses(job.good, "process 0 sends tokens for slice 3", 0);
  const auto with = [&](auto change) {
    auto bad = job.good;
    change(bad);
    return bad;
  };
  const char* not_chosen = "which it does not choose";
  job.refuses(with([](auto& bad) { bad.serial = 6; }), not_chosen);
  job.refuses(with([](auto& bad) { bad.data_rank = 1; }), not_chosen);
  job.refuses(with([](auto& bad) { bad.key.microbatch = 2; }), not_chosen);
  job.refuses(with([](auto& bad) { bad.key.microbatch = -1; }), not_chosen);
  job.refuses(with([](auto& bad) { bad.key.slice = 0; }), not_chosen);
  job.refuses(with([](auto& bad) { bad.key.slice = 4; }), not_chosen);
  job.refuses(with([](auto& bad) { bad.ids.push_back(4); }), "sends 4 tokens");
  job.refuses(with([](auto& bad) { bad.ids[1] = -1; }), "negative ones");
  job.refuses(with([](auto& bad) { bad.key.microbatch = 1; }),
              "for 0 sequences of microbatch 1");
}
