// scripts/check refuses public headers that include internal ones.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../run_program.hpp"
#include "../temporary_folder.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("a public header includes public ones only") {
  const temporary_folder at;
  std::filesystem::create_directories(at / "include/troupe");
  at.write("include/public_headers.txt",
           "# text\na.hpp\ninclude/troupe/x.hpp\n");
  at.write("include/troupe/x.hpp", "#include \"troupe/a.hpp\"\n");
  at.write("a.hpp", "#include <string>\n");
  const auto check = [&] {
    return run_program("cd " + (at / "")
                       + " && python3 " TROUPE_SOURCE_DIR
                         "/scripts/check_sources.py public");
  };
  const auto fine = check();
  INFO(fine.output);
  CHECK(fine.exit_code == 0);
  at.write("a.hpp", "\n#include \"troupe/b.hpp\"\n");
  at.write("include/troupe/y.hpp", "");
  const auto refused = check();
  CHECK(refused.exit_code == 1);
  CHECK_THAT(
    refused.output,
    ContainsSubstring("a.hpp:2: is public and includes troupe/b.hpp")
      && ContainsSubstring("include/troupe/y.hpp is not in include/public"));
}
