#include "troupe/base/json.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <map>
#include <vector>

using namespace troupe;
using nlohmann::json;

TEST_CASE("texts that are no JSON, or too deep, are discarded") {
  CHECK(parsed_json("[[1]]", 2).dump() == "[[1]]");
  CHECK(parsed_json("[[1]]", 1).is_discarded());
  CHECK(parsed_json(R"(["[[[", "\"[["])", 1).size() == 2);
  CHECK(parsed_json("{", 4).is_discarded());
}

TEST_CASE("values of JSON are taken if their type can hold them") {
  CHECK(json_as<std::int8_t>(json(127)) == 127);
  CHECK_FALSE(json_as<std::int8_t>(json(128)));
  CHECK_FALSE(json_as<std::uint64_t>(json(-1)));
  CHECK(json_as<std::uint64_t>(json(UINT64_MAX)) == UINT64_MAX);
  CHECK_FALSE(json_as<std::int64_t>(json(1.0)));
  CHECK(json_as<double>(json(1)) == 1.0);
  CHECK_FALSE(json_as<bool>(json(1)));
  CHECK(json_as<std::vector<int>>(json{1, 2})->size() == 2);
  CHECK_FALSE(json_as<std::vector<int>>(json{1, "2"}));
  CHECK(json_as<std::map<std::string, double>>(json{{"a", 1}})->at("a") == 1);
  CHECK(json_kind<std::vector<int>>()
        == "a list, each item a whole number in range");
}

TEST_CASE("numbers and bytes that JSON lacks are written nevertheless") {
  using limits = std::numeric_limits<double>;
  CHECK(json_text(json{json_number(limits::infinity()),
                       json_number(limits::quiet_NaN()), json_number(0.5)})
        == R"(["Infinity","NaN",0.5])");
  CHECK(json_text(json("\xff")) == "\"\xef\xbf\xbd\"");
}
