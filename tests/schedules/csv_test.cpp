#include "troupe/schedules/csv.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <troupe_paths.hpp>

#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

std::string case_path(const std::string& name) {
  return std::string{TROUPE_SOURCE_DIR} + "/tests/schedules/cases/" + name;
}

}  // namespace

TEST_CASE("PyTorch's compute CSV without idle cells is written back alike") {
  const std::string name =
    GENERATE("gpipe_p2_v1_m4", "1f1b_p4_v1_m8", "dualpipev_p2_v2_m4");
  const auto path = case_path(name + ".compute.csv");
  CHECK(to_csv(load_schedule(path)) == read_file(path));
}

TEST_CASE("idle cells mean nothing to the order") {
  const auto lanes = from_csv(",0F0,,0F1,0B0,0B1,\n");
  CHECK(to_csv(lanes) == "0F0,0F1,0B0,0B1\r\n");
  const auto path = case_path("interleaved1f1b_p2_v2_m4.compute.csv");
  CHECK(from_csv(to_csv(load_schedule(path)), path) == load_schedule(path));
}

TEST_CASE("lines end in LF or CR LF, the last one perhaps in neither") {
  const auto expected = from_csv("0F0,0B0\r\n1F0,1B0\r\n").lanes;
  CHECK(from_csv("0F0,0B0\n1F0,1B0\n").lanes == expected);
  CHECK(from_csv("0F0,0B0\n1F0,1B0").lanes == expected);
}

TEST_CASE("placement is read from where stages stand") {
  const auto v = load_schedule(case_path("zbv_p2_v2_m2.compute.csv"));
  CHECK(v.placement == placement::v_shaped(2));
  CHECK(v.microbatches == 2);
  const auto looped =
    load_schedule(case_path("interleavedzb_p2_v2_m4.compute.csv"));
  CHECK(looped.placement == placement::looped(2, 4));
}

TEST_CASE("an overlapped pair is two ops") {
  const auto pair = load_schedule(case_path("dualpipev_p2_v2_m4.compute.csv"));
  const auto& lane = pair.lanes[0];
  CHECK(lane[7] == op{.stage = 0, .microbatch = 3, .overlaps_next = true});
  CHECK(lane[8] == op{.stage = 3, .microbatch = 1, .kind = op_kind::backward});
}

TEST_CASE("a file is found by a dot or a slash in its name") {
  const auto path = case_path("gpipe_p2_v1_m4.compute.csv");
  CHECK(find_schedule(path, {}).lanes
        == find_schedule("gpipe", {.ranks = 2, .microbatches = 4}).lanes);
  CHECK_THROWS_MATCHES(
    find_schedule("./absent.csv", {}), error,
    Catch::Matchers::Message(
      "./absent.csv: can't be read: No such file or directory"));
}

TEST_CASE("a byte order mark is passed over") {
  const testing::temporary_folder folder;
  const auto path = folder.write("bom.csv",
                                 "\xEF\xBB\xBF"
                                 "0F0,0B0\n");
  CHECK(to_csv(load_schedule(path)) == "0F0,0B0\r\n");
}

TEST_CASE("CSV refuses to write slices") {
  schedule sliced{.name = "sliced", .slices = 2};
  CHECK_THROWS_AS(to_csv(sliced), error);
}
