// What a run may go on from.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"
#include "troupe/cli/train/train_checkpoints.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using namespace troupe;

TEST_CASE("a checkpoint whose rows can't be is refused") {
  cli::train_setup setup;
  setup.data_settings = {{"microbatch-size", "2"}, {"seed", "7"}};
  manifest about;
  about.settings = setup.data_settings;
  about.progress.microbatches = 8;
  CHECK(cli::position_after(about, setup) == 8);
  for (const std::string rows : {"-4", "0", "two", ""}) {
    about.settings["microbatch-size"] = rows;
    CHECK_THROWS_MATCHES(cli::position_after(about, setup), error,
                         MessageMatches(ContainsSubstring(fmt::format(
                           "settings.microbatch-size is '{}'", rows))));
  }
}
