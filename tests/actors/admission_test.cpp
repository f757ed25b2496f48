#include "troupe/actors/job/admission.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../says.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"
#include "troupe/engine/transport/wire.hpp"
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
    checks.begin(step);
  }
  void refuses(chosen_tokens bad, const char* what, std::int32_t sender = 1) {
    CHECK_THROWS_MATCHES(checks.check(sender, bad), error,
                         MessageMatches(ContainsSubstring(what)));
  }

  std::shared_ptr<const plan> generated =
    std::make_shared<const plan>(compile(generation_schedule(
      make_schedule("1f1b", {.ranks = 2, .microbatches = 2}).placement, 2, 4)));
  admission checks{make_layout(0, 2, 1, 2), 1,
                   std::make_shared<const job_plans>(std::vector{generated}),
                   0};
  chosen_tokens good{5, 0, {0, 3}, 0, {1, 2, 3}};
};

}  // namespace

TEST_CASE("tokens that another process can't have chosen are refused") {
  generating job;
  job.checks.check(1, job.good);
  auto ended = job.good;
  ended.ids.clear();
  job.checks.check(1, ended);
  auto late = job.good;
  late.serial = 4;
  job.checks.check(1, late);

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

TEST_CASE("messages may grow by steps, not at once") {
  constexpr std::int64_t MiB = std::int64_t{1} << 20;
  const auto plans =
    std::make_shared<const job_plans>(std::vector{std::make_shared<const plan>(
      compile(make_schedule("gpipe", {.ranks = 2, .microbatches = 2})))});
  const auto receives = [&](admission& at, std::int64_t bytes) {
    envelope header;
    header.from_stage = 1;
    header.message = 0;
    at.check(1, {.tensors = {{at::kByte, {bytes}}}, .head = to_wire(header)});
    at.consumed(1);
  };
  const auto layout = make_layout(0, 2, 1, 2);
  admission small(layout, 0, plans, 100);
  receives(small, 0);
  receives(small, 8);
  receives(small, 64 * MiB);  // a long prompt after one of a token
  CHECK_THROWS_MATCHES(
    receives(small, 256 * 64 * MiB + 1), error,
    says("after at most 67108864 so far, up to 17179869184"));
  receives(small, 256 * 64 * MiB);
  admission fresh(layout, 0, plans, 100), large(layout, 0, plans, 100 * MiB);
  receives(fresh, 8);
  CHECK_THROWS_MATCHES(receives(fresh, 64 * MiB + 1), error,
                       says("from stage 1 to stage 0"));
  receives(large, 8);
  receives(large, 400 * MiB);
}
