#include <catch2/catch_test_macros.hpp>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

using troupe::testing::run_program;

TEST_CASE("texts are tokenized and decoded") {
  const std::string python =
    "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" TROUPE_READERS "/python python3 ";
  if (run_program(python + "-c 'import tokenizers'").exit_code != 0)
    SKIP("needs python3 with the package tokenizers");
  const auto run =
    run_program(python + TROUPE_SOURCE_DIR + "/tests/scripts/tokenize_test.py");
  INFO(run.output);
  CHECK(run.exit_code == 0);
}
