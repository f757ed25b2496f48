#include "troupe/base/fields.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

namespace {

struct numbered {
  int first = 1, second = 2, own = 3, last = 4;
};
TROUPE_FIELDS(numbered, first, second, last)

/// At least as many fields as any message of a job.
struct many {
  int a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9,
      k = 10, l = 11, m = 12, n = 13, o = 14, p = 15, q = 16, r = 17, s = 18,
      t = 19, u = 20, v = 21, w = 22, x = 23, y = 24, z = 25;
};
TROUPE_FIELDS(many, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t,
              u, v, w, x, y, z)

struct listing {
  void operator()(const char* name, int value) {
    names.emplace_back(name);
    values.push_back(value);
  }
  std::vector<std::string> names;
  std::vector<int> values;
};

}  // namespace

TEST_CASE("a description names the fields of a type, and no others") {
  listing listed;
  numbered value;
  fields(listed, value);
  CHECK(listed.names == std::vector<std::string>{"first", "second", "last"});
  CHECK(listed.values == std::vector{1, 2, 4});
}

TEST_CASE("a type may have two dozen fields") {
  listing listed;
  many value;
  fields(listed, value);
  REQUIRE(listed.values.size() == 26);
  CHECK(listed.values.back() == 25);
  CHECK(listed.names.back() == "z");
}
