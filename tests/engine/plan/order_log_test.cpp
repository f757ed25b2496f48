#include "troupe/engine/plan/check/order_log.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

#include "../../says.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/lane_executor.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::string log_of(const plan& of, std::int64_t step) {
  std::string text;
  for (std::int32_t r = 0; r < of.ranks(); ++r) {
    std::vector<std::uint32_t> ops;
    for (auto i = of.first_op[std::size_t(r)];
         i < of.first_op[std::size_t(r) + 1]; ++i)
      ops.push_back(i);
    text += order_log_line(of, step, 0, r, ops);
  }
  return text;
}

plan small_plan() {
  return make_plan("1f1b", {.ranks = 2, .microbatches = 2});
}

}  // namespace

TEST_CASE("a log gives back the orders that were written to it") {
  const auto of = small_plan();
  const order_log log(order_log_heading() + log_of(of, 1) + log_of(of, 2), "x");
  const auto orders = log.orders_of(of, 1, 2);
  REQUIRE(orders.size() == 2);
  for (std::size_t r = 0; r < 2; ++r) {
    REQUIRE(orders[r].size() == of.lane(std::int32_t(r)).size());
    for (std::uint32_t i = 0; i < orders[r].size(); ++i)
      CHECK(orders[r][i] == of.first_op[r] + i);
  }
}

// As ready_first may order them: receives are posted before their messages.
TEST_CASE("receives may stand before all else") {
  const auto of = small_plan();
  auto text = log_of(of, 1);
  const std::string receive = " 0RECV_B0";
  text.erase(text.find(receive), receive.size());
  text.insert(text.find(": ") + 1, receive);
  const order_log log(order_log_heading() + text, "x");
  const auto orders = log.orders_of(of, 1, 1);
  CHECK(of.ops[orders[0][0]].kind == plan_op_kind::receive);
}

TEST_CASE("a log that does not fit the run is refused by step and cause") {
  const auto of = small_plan();
  const auto refused = [&](std::string text, const std::string& why,
                           std::int32_t replicas = 1, std::int64_t step = 1) {
    CHECK_THROWS_MATCHES(
      order_log(order_log_heading() + text, "x").orders_of(of, replicas, step),
      error, says(why));
  };
  const auto whole = log_of(of, 1);
  const auto with = [&](const std::string& what, const std::string& other) {
    auto text = whole;
    text.replace(text.find(what), what.size(), other);
    return text;
  };
  refused(whole, "x, step 3: the log has no order for replica 0, rank 0", 1, 3);
  refused(whole, "the log has no order for replica 1, rank 0", 2);
  refused(with(" 0F1", " 7F1"),
          "'7F1' is not a remaining op of rank 0 in 1f1b");
  refused(with(" 0F1", " 0F0"), "'0F0' is not a remaining op of rank 0");
  refused(with(" 0F1", ""), "0F1 of rank 0 is missing");
  refused(with("0F0 0SEND_F0", "0SEND_F0 0F0"),
          "rank 0 could not run its ops in this order");
  const auto malformed = [&](const std::string& text, const std::string& why) {
    CHECK_THROWS_MATCHES(order_log(text, "x"), error, says(why));
  };
  malformed("orders\n", "x, line 1: expected 'troupe orders 1'");
  malformed(order_log_heading() + "step 1 rank 0: 0F0\n",
            "x, line 2: expected 'step N replica D rank R: ops'");
  malformed(order_log_heading() + "step 1 replica 0 rank -1: 0F0\n",
            "x, line 2: expected");
  malformed(order_log_heading() + whole + whole,
            "x, line 4: the rank's order of this step is given twice");
}

TEST_CASE("words in any order, doubled or dropped, are read or refused") {
  std::mt19937 random(3);
  const auto of = small_plan();
  const std::vector<std::string> words{
    "step", "replica",     "rank", "0",  "1:",    "1",     "0:",
    "\n",   "0F0",         "0B1",  " ",  "1F0",   "-1",    "@1",
    ".0",   "99999999999", ":",    ": ", "0F0>1", "0NORM", "troupe orders 1\n"};
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    auto text = order_log_heading() + (i % 2 == 0 ? log_of(of, 1) : "");
    for (std::uint32_t count = random() % 12; count > 0; --count) {
      const auto& word = words[random() % words.size()];
      const auto at = random() % (text.size() + 1);
      if (random() % 3 == 0)
        text.erase(at, random() % 9);
      else
        text.insert(at, word + (random() % 2 == 0 ? " " : ""));
    }
    try {
      order_log(text, "x").orders_of(of, 1, 1);
      ++read;
    } catch (const error&) {
    }
  }
  CHECK(read > 100);
}

TEST_CASE("an executor starts its ops in a given order") {
  const auto of = small_plan();
  lane_executor executor(of, 0, lane_order::ready_first);
  std::vector<std::uint32_t> order{of.first_op[0]};
  // Both forwards and their sends, then the receives.
  for (const auto kind : {plan_op_kind::forward, plan_op_kind::send,
                          plan_op_kind::receive, plan_op_kind::backward})
    for (auto i = of.first_op[0] + 1; i < of.first_op[1]; ++i)
      if (of.ops[i].kind == kind)
        order.push_back(i);
  for (auto i = of.first_op[0]; i < of.first_op[1]; ++i)
    if (std::ranges::count(order, i) == 0)
      order.push_back(i);
  executor.begin(order);
  for (const auto op : order) {
    REQUIRE(executor.next() == op);
    executor.launched(op);
    executor.ended(op);
  }
  CHECK(executor.finished());
}
