#include "troupe/lab/api.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the lab's page is one file without external requests") {
  std::string page(lab::page());
  CHECK_THAT(
    page, ContainsSubstring("<!doctype html>") && ContainsSubstring("</html>")
            && ContainsSubstring("class Timeline")
            && ContainsSubstring("--ground") && !ContainsSubstring("@style@")
            && !ContainsSubstring("@script@"));
  const std::string name_space = "http://www.w3.org/";
  for (auto at = page.find(name_space); at != std::string::npos;
       at = page.find(name_space))
    page.erase(at, name_space.size());
  for (const auto* other : {"http:", "https:", "//cdn", "@import", "url(",
                            "src=", "innerHTML", "outerHTML", "insertAdjacent",
                            "document.write", "eval(", " style=", " onclick="})
    CHECK_THAT(page, !ContainsSubstring(other));
}
