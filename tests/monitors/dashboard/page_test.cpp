#include "troupe/monitors/dashboard/dashboard_server.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the page is one file without external requests") {
  std::string page(dashboard_page());
  CHECK_THAT(
    page, ContainsSubstring("<!doctype html>") && ContainsSubstring("</html>")
            && ContainsSubstring("const poll") && ContainsSubstring("--ground")
            && !ContainsSubstring("@style@") && !ContainsSubstring("@script@"));
  for (const std::string name_space = "http://www.w3.org/";;) {
    const auto at = page.find(name_space);
    if (at == std::string::npos)
      break;
    page.erase(at, name_space.size());
  }
  for (const auto* other : {"http:", "https:", "//cdn", "@import", "url(",
                            "src=", "innerHTML", "outerHTML", "insertAdjacent",
                            "document.write", "eval(", " style=", " onclick="})
    CHECK_THAT(page, !ContainsSubstring(other));
}
