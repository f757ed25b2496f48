#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cases/rules_p4_m8.inc"
#include "troupe/lab/api.hpp"
#include "troupe_paths.hpp"

using namespace troupe;

namespace {

const nlohmann::json rules{
  {"source", "rules"},
  {"ranks", 4},
  {"stages_per_rank", 2},
  {"microbatches", 8},
  {"costs", "f=1,i=1.25,w=0.75,message=0.1"},
  {"rules",
   {{"prefer", {"backward", "deep_stage", "weight_backward_last"}},
    {"in_flight", 16},
    {"falls_by_rank", true},
    {"split_backward", true},
    {"placement", "v_shaped"}}}};

}  // namespace

TEST_CASE("the code of rules compiles, and makes the same lanes") {
  std::ifstream file(TROUPE_SOURCE_DIR "/tests/lab/cases/rules_p4_m8.inc");
  std::stringstream code;
  code << file.rdbuf();
  const auto job = lab::parse_job(rules);
  CHECK(lab::export_as(job, "cpp", svg_theme::light).text == code.str());
  CHECK(schedule_rules() == lab::make_lanes(job));
}
