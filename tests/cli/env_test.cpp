#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/utsname.h>

#include "../files.hpp"
#include "../run_program.hpp"
#include "troupe_paths.hpp"
#include "troupe_program.hpp"
#include "troupe_version.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace troupe::testing;

TEST_CASE("the version is the first line, what it is built with follows") {
  const auto run = run_troupe("--version", "");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, StartsWith(TROUPE_VERSION "\ncommit "));
  for (const auto* name : {"\nLibTorch ", "\nCUDA ", "\nNCCL ", "\nCAF "})
    CHECK_THAT(run.output, ContainsSubstring(name));
}

TEST_CASE("the citation has the version of CMakeLists.txt") {
  CHECK_THAT(content(TROUPE_SOURCE_DIR "/CITATION.cff"),
             ContainsSubstring("\nversion: " TROUPE_VERSION "\n"));
}

TEST_CASE("env tells about the machine, and neither names nor secrets") {
  const auto run = run_program(
    "TROUPE_SECRET=hidden OMP_NUM_THREADS=3 HOME=/somewhere " TROUPE_PROGRAM
    " env");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("LibTorch loads")
                           && ContainsSubstring("TROUPE_SECRET (set)")
                           && ContainsSubstring("OMP_NUM_THREADS=3")
                           && ContainsSubstring("glibc")
                           && !ContainsSubstring("hidden"));
  utsname names{};
  ::uname(&names);
  const auto host = std::string("\nhost       ") + names.nodename + "\n";
  CHECK_THAT(run.output, !ContainsSubstring(host));
  CHECK_THAT(run_troupe("env", "--host").output, ContainsSubstring(host));
}

TEST_CASE("a build has no folder for cmake, and says what has one") {
  const auto run = run_troupe("--cmake-dir", "");
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("install troupe-dev"));
}
