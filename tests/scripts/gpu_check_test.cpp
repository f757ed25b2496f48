#include <catch2/catch_test_macros.hpp>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

using troupe::testing::run_program;

TEST_CASE("gpu_check computes its tables and makes its bundle") {
  if (run_program("python3 --version").exit_code != 0)
    SKIP("needs python3");
  const auto run =
    run_program("PYTHONDONTWRITEBYTECODE=1 python3 " TROUPE_SOURCE_DIR
                "/tests/scripts/gpu_check_test.py");
  INFO(run.output);
  CHECK(run.exit_code == 0);
}
