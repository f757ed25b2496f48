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

TEST_CASE("names that share little are not offered") {
  CHECK(closest_names("xyzzy", candidates).empty());
  CHECK(closest_names("", candidates).empty());
  CHECK(closest_names("a", {}).empty());
}
