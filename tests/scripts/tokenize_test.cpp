#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

using troupe::testing::run_program;

TEST_CASE("texts are tokenized and decoded") {
  if (run_program("python3 -c 'import tokenizers'").exit_code != 0)
    SKIP("needs python3 with the package tokenizers");
  const auto run = run_program(fmt::format(
    "PYTHONDONTWRITEBYTECODE=1 python3 {}/tests/scripts/tokenize_test.py",
    TROUPE_SOURCE_DIR));
  INFO(run.output);
  CHECK(run.exit_code == 0);
}
