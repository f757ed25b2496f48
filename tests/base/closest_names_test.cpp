#include "troupe/base/closest_names.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

using names = std::vector<std::string>;

const names candidates = {"tok.weight", "pos.weight", "blocks.0.mlp.up.weight",
                          "blocks.0.mlp.up.bias", "head.weight"};

}  // namespace

TEST_CASE("the closest names come first") {
  CHECK(closest_names("tok.wieght", candidates, 1) == names{"tok.weight"});
  CHECK(closest_names("haed.weight", candidates, 1) == names{"head.weight"});
  CHECK(closest_names("pok.weight", candidates, 2)
        == names{"tok.weight", "pos.weight"});
}

TEST_CASE("two characters in the wrong order are one edit") {
  CHECK(edits("stpes", "steps") == 1);
  CHECK(edits("stpes", "sizes") == 2);
  CHECK(edits("", "abc") == 3);
  CHECK(edits("a*c", "abbbc") == 0);
}

TEST_CASE("a glob's stars stand for any characters") {
  CHECK(closest_names("blocks.*.mpl.*", candidates)
        == names{"blocks.0.mlp.up.weight", "blocks.0.mlp.up.bias"});
  CHECK(closest_names("heed.*", candidates, 1) == names{"head.weight"});
}

TEST_CASE("a mistyped word is answered with the names that it likely means") {
  const names schedules{"gpipe", "1f1b",     "zb_h1",
                        "zb_h2", "dualpipe", "dualpipe_v"};
  CHECK(did_you_mean("1fb1", schedules) == "; did you mean 1f1b?");
  CHECK(did_you_mean("ZB-H1", schedules) == "; did you mean zb_h1?");
  CHECK(did_you_mean("zb_h", schedules) == "; did you mean zb_h1 or zb_h2?");
  CHECK(did_you_mean("dual", schedules)
        == "; did you mean dualpipe or dualpipe_v?");
  CHECK(did_you_mean("a-b", {"a-c", "a-d", "a-e", "a-f"})
        == "; did you mean a-c, a-d or a-e?");
  CHECK(did_you_mean("2f2b", schedules).empty());
  CHECK(did_you_mean("", schedules).empty());
  CHECK(did_you_mean("x", schedules).empty());
}

TEST_CASE("names that share little are not offered") {
  CHECK(closest_names("xyzzy", candidates).empty());
  CHECK(closest_names("", candidates).empty());
  CHECK(closest_names("a", {}).empty());
}
