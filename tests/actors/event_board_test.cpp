#include "troupe/actors/monitoring/event_board.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

subscription activations(std::int64_t first, std::int64_t every) {
  return {.tensors = tensor_kind::activation, .every = every, .first = first};
}

/// How many of 120 steps' tensors each subscription receives.
std::vector<int> shown(event_board& board,
                       const std::vector<subscription>& all) {
  board.set(all);
  std::vector<int> counts(all.size());
  for (std::int64_t step = 1; step <= 120; ++step) {
    const auto wish = board.wishes_for(step, phase::training);
    for (std::size_t i = 0; i < all.size(); ++i)
      counts[i] += wish.interest && all[i].covers_step(step);
  }
  return counts;
}

}  // namespace

TEST_CASE("a budget takes the same share from monitors that look rarely") {
  event_board board;
  CHECK(shown(board, {activations(1, 2)}) == std::vector{60});
  board.observe_every(3);
  CHECK(shown(board, {activations(1, 2)}) == std::vector{20});
  CHECK(shown(board, {activations(0, 10)}) == std::vector{4});
  const auto both = shown(board, {activations(0, 1), activations(1, 2)});
  CHECK((both[0] >= 40 && both[0] <= 60));
  CHECK(both[1] >= 20);
}

TEST_CASE(
  "an exempt monitor sees all steps, even when a budget limits others") {
  event_board board;
  auto exempt = activations(0, 1);
  exempt.exempt = true;
  board.observe_every(4);
  board.set({activations(0, 1), exempt});
  int for_all = 0, for_exempt = 0;
  for (std::int64_t step = 1; step <= 120; ++step) {
    const auto wish = board.wishes_for(step, phase::training);
    REQUIRE(wish.interest);
    ++(wish.interest->for_exempt() ? for_exempt : for_all);
    CHECK(wish.interest->subscriptions().size()
          == (wish.interest->for_exempt() ? 1 : 2));
  }
  CHECK(for_all == 30);
  CHECK(for_exempt == 90);
  tensors_event some;
  some.source.step = 1;
  some.for_exempt = true;
  CHECK(exempt.covers(some));
  CHECK_FALSE(activations(0, 1).covers(some));
}

TEST_CASE("the same wishes are the same object, until somebody comes or goes") {
  event_board board;
  board.set({activations(0, 1)});
  const auto first = board.wishes_for(1, phase::training).interest;
  CHECK(board.wishes_for(2, phase::training).interest == first);
  CHECK_FALSE(board.wishes_for(2, phase::validation).interest);
  board.set({activations(0, 1)});
  CHECK(board.wishes_for(3, phase::training).interest != first);
}

TEST_CASE("a step that can run again is watched for those that want that") {
  event_board board;
  auto watches = activations(0, 2);
  watches.watches = true;
  board.set({activations(0, 1), watches});
  const auto of = [&](std::int64_t step, bool can_run_again) {
    return board.wishes_for(step, phase::training, can_run_again);
  };
  const auto watched = of(2, true), odd = of(3, true), read = of(4, false);
  CHECK((watched.reading == step_reading::watched));
  CHECK((watched.interest->subscriptions() == std::vector{activations(0, 1)}));
  CHECK((watched.on_hit->subscriptions() == std::vector{watches}));
  CHECK((odd.reading == step_reading::once));
  CHECK(odd.interest == watched.interest);
  CHECK_FALSE(odd.on_hit);
  CHECK((read.reading == step_reading::once));
  CHECK(read.interest->subscriptions().size() == 2);
  CHECK_FALSE(read.on_hit);
  CHECK((of(6, true).on_hit->subscriptions() == std::vector{watches}));
}

TEST_CASE("those that watch see the second run, and others the first") {
  auto watches = activations(0, 1);
  watches.watches = true;
  tensors_event some;
  using enum step_reading;
  for (const auto reading : {once, watched, again}) {
    some.reading = reading;
    CHECK(watches.covers(some) == (reading != watched));
    CHECK(activations(0, 1).covers(some) == (reading != again));
  }
}
