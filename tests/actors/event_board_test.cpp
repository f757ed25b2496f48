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
