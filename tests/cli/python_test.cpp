#include <catch2/catch_test_macros.hpp>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

using troupe::testing::run_program;

TEST_CASE("the Python package watches live jobs and reads runs") {
  const std::string python =
    "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" TROUPE_READERS
    "/python TROUPE_PROGRAM=" TROUPE_PROGRAM " python3 -W error ";
  if (run_program(python + "-c 'import numpy'").exit_code != 0)
    SKIP("needs python3 with the package numpy");
  const auto run =
    run_program(python + TROUPE_SOURCE_DIR "/tests/cli/python_test.py");
  INFO(run.output);
  CHECK(run.exit_code == 0);
}
