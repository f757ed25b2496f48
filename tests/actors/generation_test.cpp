#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>

#include "../engine/models/usual_values.hpp"
#include "../engine/transport/joined_meshes.hpp"
#include "../generated_text.hpp"
#include "../random_delays.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr std::int64_t longest = 24;

model longer_model(const std::string& name = "gpt", std::int64_t blocks = 8) {
  const auto& entry = find_model(name);
  auto values = usual_values(entry);
  values["d-model"] = std::int64_t{16};
  values["layers"] = blocks;
  values["heads"] = std::int64_t{2};
  return entry.build(values, {.length = longest, .seed = 7, .vocabulary = 32})
    .layers;
}

/// Requests that differ in length, number of tokens, temperature and seed.
std::vector<generation_request> several() {
  std::vector<generation_request> all{
    {{1, 2, 3}, 12, {.temperature = 0}},
    {{4}, 30, {.temperature = 1, .seed = 5}},
    {{5, 6, 7}, 3, {.temperature = 1, .top_k = 4, .seed = 9}},
    {{1, 2, 3}, 7, {.temperature = 1.5, .top_p = 0.7, .seed = 1}},
    {{9, 8, 7, 6, 5, 4, 3}, 40, {.temperature = 0.9}},
    {{2}, 1, {.temperature = 0}},
    {{3, 3}, 0},
    {{11, 12}, 16, {.temperature = 1, .seed = 5}}};
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].sampling.stream = i;
  return all;
}

const generation_options usual{.length = longest};

std::vector<generated> plainly(const model& layers,
                               const generation_options& options = usual) {
  plain_loop loop(layers, {});
  std::vector<generated> all;
  for (const auto& each : several())
    all.push_back(generate_plainly(
      [&](const at::Tensor& ids) { return loop.infer({ids}).at(0); }, each,
      options));
  return all;
}

trainer trainer_of(const model& layers, const small_case& what,
                   std::shared_ptr<mesh> job = {}) {
  auto options = options_for(what);
  options.split = {};
  options.job = std::move(job);
  return {layers, std::move(options)};
}

small_case shape(const char* schedule, std::int32_t ranks,
                 std::int32_t stages_per_rank = 1) {
  return {.schedule = schedule,
          .ranks = ranks,
          .stages_per_rank = stages_per_rank,
          .microbatches = 2 * ranks};
}

}  // namespace

TEST_CASE("any number of ranks and stages generates the plain loop's tokens") {
  for (const auto* name : {"gpt", "u_net"}) {
    const auto layers = longer_model(name);
    const auto expected = plainly(layers);
    CHECK(expected[1].end == generation_end::context);
    CHECK(expected[4].end == generation_end::context);
    for (std::int32_t ranks = 1; ranks <= 4; ++ranks)
      for (std::int32_t stages = 1; stages <= 2; ++stages) {
        CAPTURE(name, ranks, stages);
        auto run = trainer_of(
          layers,
          shape(stages == 1 ? "1f1b" : "interleaved_1f1b", ranks, stages));
        CHECK(text_of(run.generate(several(), usual)) == text_of(expected));
      }
  }
}

TEST_CASE("placements, copies, replicas and shards generate the same tokens") {
  const auto layers = longer_model();
  const auto expected = plainly(layers);
  std::vector cases{shape("zb_v", 2, 2),   shape("dualpipe", 2),
                    shape("hanayo", 2, 2), shape("1f1b", 2),
                    shape("1f1b", 2),      shape("gpipe", 2)};
  cases[3].data_parallel = 3;
  cases[4].data_parallel = 2;
  cases[4].sharding.mode = shard_mode::all;
  cases[5].order = lane_order::any_ready;
  for (const auto& what : cases) {
    INFO(describe(what));
    auto run = trainer_of(layers, what);
    CHECK(text_of(run.generate(several(), usual)) == text_of(expected));
  }
}

TEST_CASE("tokens don't depend on what runs beside them") {
  const auto layers = longer_model();
  const auto expected = plainly(layers);
  auto run = trainer_of(layers, shape("1f1b", 3));
  for (const std::int32_t microbatches : {1, 2, 5, 20})
    for (const std::int32_t positions : {1, 5, 64}) {
      CAPTURE(microbatches, positions);
      auto options = usual;
      options.microbatches = microbatches;
      options.positions = positions;
      CHECK(text_of(run.generate(several(), options)) == text_of(expected));
    }
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(text_of(run.generate({several()[i]}, usual))
          == text_of({expected[i]}));
}

TEST_CASE("rows of one length run together") {
  const auto layers = longer_model();
  auto options = usual;
  options.rows = 3;
  options.stops = {{3}, {17, 4}};
  auto run = trainer_of(layers, shape("1f1b", 2));
  CHECK(text_of(run.generate(several(), options))
        == text_of(plainly(layers, options)));
}

TEST_CASE("delays of actors change no token") {
  const auto layers = longer_model();
  auto what = options_for(shape("interleaved_1f1b", 3, 2));
  what.split = {};
  what.execution.handler_hook = random_delays(7);
  trainer run(layers, what);
  CHECK(text_of(run.generate(several(), usual)) == text_of(plainly(layers)));
}

TEST_CASE("monitors are told of each token that enters the model") {
  auto run = trainer_of(longer_model(), shape("interleaved_1f1b", 2, 2));
  std::int64_t tokens = 0;
  monitor watch;
  watch.name = "tokens";
  watch.see = [&](const event& what) {
    if (const auto* step = std::get_if<step_event>(&what)) {
      tokens += step->tokens;
      expect(step->source.phase == phase::inference, "it is inference");
    }
  };
  run.attach(watch);
  run.generate({{{1, 2, 3}, 12}, {{4}, 5}, {{5, 6}, 1}}, usual);
  run.finish_monitors();
  // No forward reads the last token of a sequence.
  CHECK(tokens == (3 + 11) + (1 + 4) + 2);
}

TEST_CASE("generating in bf16 chooses the plain loop's tokens") {
  const auto layers = longer_model();
  auto what = shape("1f1b", 2);
  what.autocast = at::kBFloat16;
  plain_options plain;
  plain.numerics.autocast = what.autocast;
  plain_loop loop(layers, plain);
  plain_loop in_fp32(layers, {});
  const auto ids = at::tensor({1, 2, 3, 4}, at::kLong).unsqueeze(0);
  const auto logits = loop.infer({ids}).at(0);
  CHECK(logits.scalar_type() == at::kBFloat16);
  CHECK_FALSE(at::equal(logits.to(at::kFloat), in_fp32.infer({ids}).at(0)));
  auto run = trainer_of(layers, what);
  CHECK(at::equal(run.infer({ids}).at(0), logits));
  const generation_request greedy{{1, 2, 3}, 12, {.temperature = 0}};
  CHECK(text_of(run.generate({greedy}, usual))
        == text_of({generate_plainly(
          [&](const at::Tensor& all) { return loop.infer({all}).at(0); },
          greedy, usual)}));
}

TEST_CASE("each request draws from a stream of its own, by its place") {
  const auto layers = longer_model("gpt");
  auto run = trainer_of(layers, shape("1f1b", 2));
  const generation_request request{{1, 2, 3}, 12, {.temperature = 1}};
  const auto twice = run.generate({request, request}, usual);
  CHECK(text_of({twice[0]}) != text_of({twice[1]}));
  auto second = request;
  second.sampling.stream = 1;
  CHECK(text_of(run.generate({second}, usual)) == text_of({twice[1]}));
  CHECK(text_of(run.generate({request}, usual)) == text_of({twice[0]}));
}

TEST_CASE("training goes on after generating, with the same bits") {
  const auto what = shape("1f1b", 2);
  trainer run(model_for(what), options_for(what));
  trainer other(model_for(what), options_for(what));
  const generation_options short_ones{.length = 8};
  for (int i = 0; i < 3; ++i) {
    run.step(small_text());
    other.step(small_text());
    run.generate({{{1, 2}, 5}, {{3}, 5}}, short_ones);
  }
  run.evaluate(small_text(), 2);
  CHECK(first_difference(run.parameters(), other.parameters()) == "");
}

TEST_CASE("the processes of a job get the same tokens") {
  const auto layers = longer_model();
  const auto expected = plainly(layers);
  std::vector cases{shape("1f1b", 2), shape("interleaved_1f1b", 2, 2),
                    shape("zb_v", 2, 2), shape("1f1b", 2)};
  cases[3].data_parallel = 2;
  for (const auto& what : cases) {
    INFO(describe(what));
    joined_meshes meshes(2);
    for (const auto& error :
         in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
           auto run = trainer_of(layers, what, job);
           auto options = usual;
           expect(
             text_of(run.generate(several(), options)) == text_of(expected),
             "the plain loop's tokens are generated");
           options.rows = 2;
           expect(run.generate(several(), options).size() == expected.size(),
                  "each prompt is answered");
         }))
      CHECK(error == "");
  }
}

TEST_CASE("a listener may end the run, and sees what there is by then") {
  auto run = trainer_of(longer_model(), shape("1f1b", 2));
  std::size_t ids = 0;
  const auto stop_early = [&](std::size_t, const generated& so_far) {
    ids = so_far.ids.size();
    if (ids > 2)
      run.stop("enough");
  };
  CHECK_THROWS_MATCHES(run.generate({{{1}, 20}}, {.positions = 2}, stop_early),
                       error, MessageMatches(ContainsSubstring("enough")));
  CHECK(ids > 2);
  CHECK(ids < 20);
  CHECK_THROWS_AS(run.generate({{{1}, 20}}), error);
}

TEST_CASE("what can't be generated is refused, and nothing runs") {
  auto run = trainer_of(longer_model(), shape("1f1b", 2));
  const auto refuses = [&](const generation_request& bad, const char* what) {
    CHECK_THROWS_MATCHES(run.generate({bad}, usual), error,
                         MessageMatches(ContainsSubstring(what)));
  };
  refuses({{}}, "prompt 1 is empty");
  refuses({std::vector<std::int64_t>(25, 1)}, "prompt 1 has 25 tokens");
  refuses({{1}, 5, {.temperature = -0.5}}, "temperature of -0.5");
  CHECK(run.generate({}, usual).empty());

  struct whole_only final : stage_module {
    tensor_list forward(const tensor_list& inputs) override { return inputs; }
  };
  auto layers = longer_model();
  layers.insert(layers.begin() + 2,
                {"whole", [] { return std::make_shared<whole_only>(); }});
  auto other = trainer_of(layers, shape("1f1b", 2));
  CHECK_THROWS_MATCHES(
    other.generate({{{1}}}), error,
    MessageMatches(ContainsSubstring("'whole') does not run in slices")));
}

TEST_CASE("an id beyond the vocabulary fails with its op") {
  auto run = trainer_of(longer_model(), shape("1f1b", 2));
  CHECK_THROWS_MATCHES(run.generate({{{99}, 3}}), error,
                       MessageMatches(ContainsSubstring("0F0")));
}

TEST_CASE("a listener that throws leaves nothing to the next prompts") {
  const auto layers = longer_model();
  auto run = trainer_of(layers, shape("1f1b", 2));
  CHECK_THROWS_AS(run.generate(several(), usual,
                               [](std::size_t, const generated&) {
                                 throw std::runtime_error("enough");
                               }),
                  std::runtime_error);
  CHECK(text_of(run.generate(several(), usual)) == text_of(plainly(layers)));
}
