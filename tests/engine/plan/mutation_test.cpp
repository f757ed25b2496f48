// Damaged files are refused, or are plans whose verdict has a reason; there are
// no crashes and no hangs.
#include <catch2/catch_test_macros.hpp>

#include <random>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/cell_rows.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;

namespace {

class damager {
 public:
  std::string damage(std::string text) {
    for (auto times = 1 + below(3); times > 0; --times)
      below(2) == 0 ? move_cell(text) : change_character(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change_character(std::string& text) {
    constexpr std::string_view others = "0123456789FBIW,;()\r\n_ .@+-!<>";
    text[below(text.size())] = others[below(others.size())];
  }

  // Removes a cell, and mostly inserts it elsewhere in its line.
  void move_cell(std::string& text) {
    const auto begin = text.find_first_of(", ", below(text.size()));
    if (begin == std::string::npos)
      return;
    const auto end =
      std::min(text.find_first_of(", \n", begin + 1), text.size());
    const auto cell = text.substr(begin, end - begin);
    text.erase(begin, end - begin);
    const auto to = text.find_first_of(", ", begin + below(40));
    if (to != std::string::npos)
      text.insert(to, cell);
  }

  std::mt19937 random_{20261121};
};

plan read(const std::string& text) {
  if (is_plan_text(text))
    return plan_from_text(text);
  const auto rows = parse_cells(text, "x");
  return is_lowered(rows) ? from_lowered_csv(text)
                          : compile(compute_lanes(rows, "x"));
}

// Whether the text is still a plan.
bool survives(const std::string& text) {
  try {
    const auto of = read(text);
    for (const auto& model : testing::all_transports) {
      const auto verdict = verify(of, model);
      CHECK(verdict.progress == verdict.cycle.empty());
    }
    simulate(of);
    return true;
  } catch (const error& refusal) {
    return false;
  }
}

}  // namespace

TEST_CASE("damaged files are refused or replayed to an end") {
  damager random;
  int plans = 0;
  for (const auto& name : testing::case_names())
    for (const std::string form : {".compute.csv", ".comms.csv"}) {
      const auto text = read_file(testing::case_path(name + form));
      const auto as_plan = to_text(read(text));
      for (int i = 0; i < 300; ++i) {
        plans += survives(random.damage(text)) ? 1 : 0;
        plans += survives(random.damage(as_plan)) ? 1 : 0;
      }
    }
  CHECK(plans > 50);  // the reader does not notice all damage
}

TEST_CASE("damaged plans of graphs are refused or replayed to an end") {
  damager random;
  const stage_graph graph(4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {2, 3}});
  const auto text = to_text(testing::make_plan(
    "1f1b", {.ranks = 4, .microbatches = 3}, {.graph = graph}));
  int plans = 0;
  for (int i = 0; i < 20000; ++i)
    plans += survives(random.damage(text)) ? 1 : 0;
  CHECK(plans > 50);
  CHECK(plans < 10000);
}

TEST_CASE("damaged plans that offload are refused or replayed to an end") {
  damager random;
  const auto text = to_text(
    offloaded(testing::make_plan("dualpipe", {.ranks = 4, .microbatches = 8}),
              {.fraction = 1}));
  int plans = 0;
  for (int i = 0; i < 10000; ++i)
    plans += survives(random.damage(text)) ? 1 : 0;
  CHECK(plans > 50);
  CHECK(plans < 5000);
}
