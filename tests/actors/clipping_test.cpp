#include <ATen/core/grad_mode.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <cstring>

#include "small_model.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const std::vector<norm_type> all_types = {norm_type::infinity, norm_type::one,
                                          norm_type::two, norm_type::three};

bool same_bits(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Trains with the trainer and the plain loop; empty if norms and parameters
/// have the same bits.
std::string difference(const small_case& what, double first_weight = 0) {
  trainer run(model_for(what), options_for(what));
  plain_loop oracle(model_for(what), plain_options_for(what));
  if (first_weight != 0) {
    auto values = oracle.parameters();
    const at::NoGradGuard no_grad;
    values.back().second[0] = first_weight;
    run.load(values, "test");
  }
  const auto text = small_text();
  const auto per_step = what.microbatches * what.data_parallel;
  for (int i = 0; i < 3; ++i) {
    const auto norm = run.step(text).summary.gradient_norm;
    const auto expected =
      oracle.step([&](std::int64_t k) { return text->at(i * per_step + k); });
    if (!same_bits(norm, expected.gradient_norm)
        && !(std::isnan(norm) && std::isnan(expected.gradient_norm)))
      return "norms differ";
  }
  return first_difference(run.parameters(), oracle.parameters());
}

}  // namespace

TEST_CASE("clipping by every p-norm gives the plain loop's bits") {
  for (const auto type : all_types)
    for (const std::int32_t ranks : {1, 2, 3}) {
      const double clip = type == norm_type::infinity ? 0.02 : 0.5;
      for (const auto& what :
           {small_case{.ranks = ranks, .clip = clip, .norm_type = type},
            small_case{.schedule = "zb_h1",
            .ranks = ranks,
            .data_parallel = 2,
            .clip = clip,
            .norm_type = type}}) {
        INFO("p " << static_cast<int>(type) << ", " << describe(what));
        CHECK(difference(what) == "");
      }
    }
}

TEST_CASE("clipping counts copies of a stage once") {
  for (const auto type : all_types)
    CHECK(difference({.schedule = "dualpipe",
                      .ranks = 2,
                      .microbatches = 4,
                      .clip = 0.1,
                      .norm_type = type})
          == "");
}

TEST_CASE("clipping takes the norm without the loss scale") {
  const auto text = small_text();
  for (const auto type : all_types) {
    const auto norm_with = [&](loss_scale_options scale) {
      const small_case what{
        .ranks = 2, .clip = 0.01, .norm_type = type, .loss_scale = scale};
      INFO("p " << static_cast<int>(type));
      CHECK(difference(what) == "");
      return trainer_for(what, nullptr).step(text).summary.gradient_norm;
    };
    const auto plain = norm_with({});
    const auto scaled = norm_with({.initial = 1024});
    CHECK(std::abs(scaled - plain) < 1e-6 * plain);
    const auto dynamic = norm_with({.initial = 1024, .dynamic = true});
    CHECK(same_bits(dynamic, scaled));
  }
}

TEST_CASE("stages without gradients count as nothing in a norm") {
  for (const auto type : all_types)
    CHECK(difference({.ranks = 3,
                      .clip = 0.1,
                      .groups = {{"tok.*,pos.*,blocks.0.*", 1, {}, true}},
                      .norm_type = type})
          == "");
}

TEST_CASE("shards without gradients count as nothing in a norm") {
  for (const auto type : all_types) {
    CAPTURE(static_cast<int>(type));
    small_case what{.ranks = 2,
                    .data_parallel = 2,
                    .clip = 0.1,
                    .groups = {{"tok.*,pos.*,blocks.0.*", 1, {}, true}},
                    .norm_type = type};
    trainer whole(model_for(what), options_for(what));
    what.sharding.mode = shard_mode::all;
    trainer shards(model_for(what), options_for(what));
    for (int i = 0; i < 2; ++i) {
      const auto norm = shards.step(small_text()).summary.gradient_norm;
      const auto expected = whole.step(small_text()).summary.gradient_norm;
      CHECK(std::abs(norm / expected - 1) < 1e-6);
    }
  }
}

TEST_CASE("norms that are not finite clip shards as whole parameters") {
  for (const auto type : all_types) {
    CAPTURE(static_cast<int>(type));
    CHECK(difference({.ranks = 2,
                      .data_parallel = 2,
                      .clip = 0.1,
                      .norm_type = type,
                      .sharding = {.mode = shard_mode::all}},
                     INFINITY)
          == "");
  }
}

TEST_CASE("norms that are not finite give the plain loop's bits") {
  const auto weight = GENERATE(INFINITY, 1e38);
  for (const auto type : all_types) {
    CHECK(difference({.ranks = 2, .clip = 0.1, .norm_type = type}, weight)
          == "");
    CHECK(difference({.ranks = 2,
                      .norm_type = type,
                      .loss_scale = {.initial = 1024, .dynamic = true}},
                     weight)
          == "");
  }
}
