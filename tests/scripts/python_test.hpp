#pragma once

#include <catch2/catch_test_macros.hpp>

#include <string>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

namespace troupe::testing {

/// Runs a Python program of tests/scripts, which exits with 0 if its tests
/// pass. Skips where `import` of the packages fails, joined by commas.
inline void check_python_test(const std::string& file,
                              const std::string& packages = "sys") {
  const std::string python =
    "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" TROUPE_READERS "/python python3 ";
  if (run_program(python + "-c 'import " + packages + "'").exit_code != 0)
    SKIP("needs python3 with " << packages);
  const auto run =
    run_program(python + TROUPE_SOURCE_DIR "/tests/scripts/" + file);
  INFO(run.output);
  CHECK(run.exit_code == 0);
}

}  // namespace troupe::testing
