#include "troupe/base/closest_names.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

using names = std::vector<std::string>;

const names candidates = {"tok.weight", "pos.weight", "blocks.0.mlp.up.weight",
                          "blocks.0.mlp.up.bias", "head.weight"};

}  // namespace

TEST_CASE("two characters in the wrong order are one edit") {
  CHECK(edits("stpes", "steps") == 1);
  CHECK(edits("stpes", "sizes") == 2);
  CHECK(edits("", "abc") == 3);
  CHECK(edits("a*c", "abbbc") == 0);
}

TEST_CASE("a glob's stars stand for any characters") {
  CHECK(did_you_mean("blocks.*.mpl.*", candidates)
        == "; did you mean blocks.0.mlp.up.weight or blocks.0.mlp.up.bias?");
  CHECK(did_you_mean("heed.*", candidates) == "; did you mean head.weight?");
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

TEST_CASE("the names of the fewest edits are offered, none that share little") {
  CHECK(did_you_mean("tok.wieght", candidates) == "; did you mean tok.weight?");
  CHECK(did_you_mean("pok.weight", candidates)
        == "; did you mean tok.weight or pos.weight?");
  CHECK(did_you_mean("xyzzy", candidates).empty());
  CHECK(did_you_mean("", candidates).empty());
  CHECK(did_you_mean("a", {}).empty());
}
