#include "troupe/engine/plan/text/lowered_csv.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;

TEST_CASE("PyTorch's lowered CSV is written back alike") {
  for (const auto& name : testing::case_names()) {
    const auto path = testing::case_path(name + ".comms.csv");
    CHECK(to_lowered_csv(from_lowered_csv(read_file(path))) == read_file(path));
  }
}

TEST_CASE("a lowered plan survives the plan's text") {
  for (const auto& name : testing::case_names()) {
    const auto of = load_plan(testing::case_path(name + ".comms.csv"));
    CHECK(plan_from_text(to_text(of)) == of);
  }
}

TEST_CASE("PyTorch's lowering and ours are safe under every transport") {
  for (const auto& name : testing::case_names())
    for (const auto form : {".compute.csv", ".comms.csv"}) {
      const auto of = load_plan(testing::case_path(name + form));
      for (const auto& model : testing::all_transports)
        CHECK(verify(of, model).text()
              == "makes progress, as every op completes");
    }
}

TEST_CASE("what we lower reads back, and is safe with both ends blocking") {
  for (const auto& name : testing::case_names()) {
    const auto of = load_plan(testing::case_path(name + ".compute.csv"));
    const auto text = to_lowered_csv(of);
    const auto read = from_lowered_csv(text);
    CHECK(to_lowered_csv(read) == text);
    CHECK(verify(read, {transport_kind::rendezvous}).progress);
  }
}

TEST_CASE("our 1f1b is lowered as PyTorch lowers it, but for sharding") {
  const auto of = load_plan(testing::case_path("1f1b_p4_v1_m8.comms.csv"));
  auto theirs = to_lowered_csv(of);
  for (const auto name : {"UNSHARD,", "REDUCE_GRAD,", ",RESHARD"})
    for (const auto stage : {"0", "1", "2", "3"}) {
      auto cell = std::string{name};
      cell.insert(cell[0] == ',' ? 1 : 0, stage);
      theirs.erase(theirs.find(cell), cell.size());
    }
  // An op of ours that ends when another one begins posts its message before
  // it.
  const auto ours =
    to_lowered_csv(testing::make_plan("1f1b", {.ranks = 4, .microbatches = 8}));
  CHECK(ours.size() == theirs.size());
  CHECK(ours.substr(0, ours.find('\n')) == theirs.substr(0, theirs.find('\n')));
}

TEST_CASE("lowering refuses what CSV can't express") {
  plan sliced;
  sliced.slices = 2;
  CHECK_THROWS_AS(to_lowered_csv(sliced), error);
}
