#include "troupe/engine/generation/sequence_batches.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../../generated_text.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

generation_request request(std::vector<std::int64_t> ids,
                           std::int64_t tokens = 4) {
  return {std::move(ids), tokens, {.temperature = 0}};
}

/// Logits [t, 64] that make the next id follow.
at::Tensor counting(const at::Tensor& ids) {
  auto logits = at::zeros({ids.size(0), 64});
  for (std::int64_t i = 0; i < ids.size(0); ++i)
    logits[i][(ids[i].item<std::int64_t>() + 1) % 64] = 50;
  return logits;
}

/// Runs a step as stages do; returns the calls of `choose`.
int run_step(sequence_batches& work) {
  const auto step = work.begin_step();
  int calls = 0;
  for (std::size_t slot = 0; slot < work.slots(); ++slot) {
    const auto data = work.data(slot);
    if (data.inputs.empty())
      continue;
    auto last = data.inputs[0].select(1, -1);
    for (std::int32_t i = 0; i < work.positions() && last.defined(); ++i) {
      const auto chosen = work.choose(step.batches[slot], counting(last));
      last = chosen.defined() ? chosen.select(1, 0) : at::Tensor{};
      ++calls;
    }
  }
  return calls;
}

std::vector<generated> run(sequence_batches& work) {
  while (!work.finished())
    run_step(work);
  return work.results();
}

std::vector<std::int64_t> from_to(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> ids;
  for (; first <= last; ++first)
    ids.push_back(first);
  return ids;
}

}  // namespace

TEST_CASE("prompts of one length share rows, and slots are taken in order") {
  sequence_batches work({request({1}), request({2, 3}), request({4}),
                         request({5, 6}), request({7})},
                        {.rows = 2}, 2, 10);
  CHECK(work.slots() == 2);
  const auto step = work.begin_step();
  CHECK(step.batches == std::vector<std::int64_t>{10, 11});
  CHECK(work.positions() == 1);
  CHECK(at::equal(work.data(0).inputs.at(0),
                  at::tensor({1, 4}, at::kLong).view({2, 1})));
  CHECK(at::equal(work.data(1).inputs.at(0),
                  at::tensor({2, 3, 5, 6}, at::kLong).view({2, 2})));
  CHECK(work.data(1).tokens == 4);
}

TEST_CASE("a batch that ends leaves its slot to one that waits") {
  for (const std::int64_t rows : {1, 3})
    for (const std::size_t slots : {1, 2, 5})
      for (const std::int32_t positions : {1, 3, 16}) {
        CAPTURE(rows, slots, positions);
        sequence_batches work(
          {request({1}, 1), request({2}, 9), request({3, 4}, 5),
           request({5}, 0), request({6}, 4)},
          {.rows = rows, .positions = positions}, slots);
        const auto sequences = run(work);
        CHECK(text_of({sequences[0]})
              == text_of({{{2}, generation_end::tokens}}));
        CHECK(text_of({sequences[1]})
              == text_of({{from_to(3, 11), generation_end::tokens}}));
        CHECK(text_of({sequences[2]})
              == text_of({{from_to(5, 9), generation_end::tokens}}));
        CHECK(text_of({sequences[3]})
              == text_of({{{}, generation_end::tokens}}));
        CHECK(text_of({sequences[4]})
              == text_of({{from_to(7, 10), generation_end::tokens}}));
      }
}

TEST_CASE("rows that have ended are left out of the next step") {
  sequence_batches work({request({1}, 1), request({2}, 6), request({3}, 2)},
                        {.rows = 3, .positions = 2}, 1);
  run_step(work);
  const auto step = work.begin_step();
  CHECK(step.kept_rows.at(0) == std::vector<std::int64_t>{1, 2});
  CHECK(at::equal(work.data(0).inputs.at(0),
                  at::tensor({3, 4}, at::kLong).view({2, 1})));
}

TEST_CASE("positions of a step are powers of two, up to what is left") {
  const auto positions_of = [](std::int64_t tokens, std::int32_t most) {
    sequence_batches work({request({1}, tokens)}, {.positions = most}, 1);
    std::vector<std::int32_t> positions;
    while (!work.finished()) {
      run_step(work);
      positions.push_back(work.positions());
    }
    return positions;
  };
  CHECK(positions_of(40, 16) == std::vector{1, 2, 4, 8, 16, 16});
  CHECK(positions_of(23, 5) == std::vector{1, 2, 4, 5, 5, 5, 1});
  CHECK(positions_of(35, 5) == std::vector{1, 2, 4, 5, 5, 5, 5, 5, 4});
}

TEST_CASE("a sequence ends within a step: nothing is chosen behind that") {
  sequence_batches work({request({1}, 50)}, {.stops = {{7}}, .positions = 16},
                        1);
  CHECK(run_step(work) + run_step(work) + run_step(work) == 6);
  CHECK(text_of({work.results()[0]})
        == text_of({{from_to(2, 6), generation_end::stop}}));
}

TEST_CASE("stops of several tokens end a sequence before them") {
  const std::vector<std::vector<std::int64_t>> stops{{9, 9}, {5, 6}};
  sequence_batches work({request({1}, 50), request({5}, 50)}, {.stops = stops},
                        2);
  const auto sequences = run(work);
  CHECK(text_of({sequences[0]})
        == text_of({{{2, 3, 4}, generation_end::stop}}));
  // The prompt's own end does not count as part of a stop.
  CHECK(sequences[1].ids.front() == 6);
  CHECK(sequences[1].ids.size() == 50);
}

TEST_CASE("the model's positions end a sequence, with one token behind them") {
  sequence_batches work({request({1, 2, 3}, 50), request(from_to(1, 8), 50)},
                        {.length = 8}, 2);
  const auto sequences = run(work);
  CHECK(text_of({sequences[0]})
        == text_of({{from_to(4, 9), generation_end::context}}));
  CHECK(text_of({sequences[1]}) == text_of({{{9}, generation_end::context}}));
}

TEST_CASE("another process takes up the tokens, and decides alike") {
  const std::vector requests{request({1}, 3), request({2, 3}, 7),
                             request({4}, 5)};
  sequence_batches chooser(requests, {.rows = 2}, 2),
    other(requests, {.rows = 2}, 2);
  while (!chooser.finished()) {
    const auto theirs = other.begin_step();
    run_step(chooser);
    CHECK(theirs.batches.size() == 2);
    CHECK(other.positions() == chooser.positions());
    for (std::size_t slot = 0; slot < 2; ++slot)
      other.take(slot, chooser.chosen(slot));
  }
  CHECK(other.finished());
  CHECK(text_of(other.results()) == text_of(chooser.results()));
  sequence_batches third(requests, {}, 1);
  third.begin_step();
  CHECK_THROWS_AS(third.take(0, at::zeros({1, 7}, at::kLong)), error);
  CHECK_THROWS_AS(third.take(0, at::zeros({1, 1})), error);
}

TEST_CASE("a listener receives each request that has new tokens") {
  sequence_batches work({request({1}, 1), request({2}, 3)}, {}, 2);
  std::vector<std::pair<std::size_t, std::size_t>> reports;
  while (!work.finished()) {
    run_step(work);
    work.end_step([&](std::size_t i, const generated& so_far) {
      reports.emplace_back(i, so_far.ids.size());
    });
  }
  const decltype(reports) expected{{0, 1}, {1, 1}, {1, 3}};
  CHECK((reports == expected));
}

TEST_CASE("requests that can't be meant are refused by number") {
  const auto refuses = [](const generation_request& bad, const char* what,
                          const generation_options& options = {}) {
    CHECK_THROWS_MATCHES(require_legal({request({1}), bad}, options), error,
                         MessageMatches(ContainsSubstring(what)));
  };
  refuses(request({}), "prompt 2 is empty");
  refuses(request({-1}), "prompt 2 has a negative id");
  refuses(request({1, 2, 3}), "prompt 2 has 3 tokens, but the model has 2",
          {.length = 2});
  refuses(request({1}, -1), "prompt 2 has -1 tokens to generate");
  refuses({{1}, 1, {.temperature = -1}}, "prompt 2 has a temperature of -1");
  refuses(request({1}), "rows of a microbatch are 0", {.rows = 0});
  refuses(request({1}), "positions of a step are 0", {.positions = 0});
  refuses(request({1}), "is empty", {.stops = {{}}});
}

TEST_CASE("the oracle runs the whole sequence for each token") {
  std::vector<std::int64_t> lengths;
  const auto logits_of = [&](const at::Tensor& ids) {
    lengths.push_back(ids.size(1));
    return counting(ids.select(0, 0)).unsqueeze(0);
  };
  CHECK(text_of({generate_plainly(logits_of, request({4, 5}, 3), {})})
        == "6 7 8 (tokens)");
  CHECK(lengths == std::vector<std::int64_t>{2, 3, 4});
}
