#include "troupe/monitors/sinks/text_sinks.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../../temporary_folder.hpp"
#include "records.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// The printed text of one alert or record.
template <class What>
std::string printed(terminal_options options, const What& what) {
  const temporary_folder folder;
  options.out = std::fopen((folder / "out").c_str(), "w");
  terminal_sink(options)->write(what);
  std::fclose(options.out);
  return content(folder / "out");
}

}  // namespace

TEST_CASE("without settings a terminal shows alerts, and no metrics") {
  CHECK(printed({}, record_of(1, {{"loss", 2}})).empty());
  CHECK(printed({}, alert_of(3, "stability", "step 3: a spike"))
        == "stability: step 3: a spike\n");
  CHECK(printed({}, alert_of(3, "overflow", "found\n  table\n"))
        == "overflow:\n  found\n    table\n");
}

TEST_CASE("metrics that match are shown, the largest first") {
  const auto record = record_of(7, {{"gap/a/max", .5},
                                    {"gap/b/max", -1234567},
                                    {"loss", 1e9},
                                    {"gap/c/max", quiet_nan},
                                    {"gap/d/max", infinity}});
  CHECK(printed({.match = "gap/*,spike/*", .top = 3}, record)
        == "step 7 gap/c/max nan\nstep 7 gap/d/max inf\n"
           "step 7 gap/b/max -1.23457e+06\n");
  CHECK(
    printed({.match = "loss"}, record_of(8, {{"loss", .1}}, phase::validation))
    == "validation at step 8 loss 0.1\n");
  CHECK_THROWS_AS(terminal_sink({.top = 0}), error);
}

TEST_CASE("colours are for terminals, and nothing else controls them") {
  CHECK(printed({.colour = true}, alert_of(1, "m", "a\033[2J\rb"))
        == "\033[1;31mm: a\\x1B[2J\\x0Db\033[0m\n");
  const auto record = record_of(1, {{"a\nb\033c", 1}});
  CHECK(printed({.match = "*"}, record) == "step 1 a\\x0Ab\\x1Bc 1\n");
  const std::string text(300, 'x');
  CHECK(printed({}, alert_of(1, "m", text)) == "m: " + text + "\n");
}
