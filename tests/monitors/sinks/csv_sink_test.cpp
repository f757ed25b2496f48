#include "troupe/monitors/sinks/text_sinks.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../../temporary_folder.hpp"
#include "records.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("metrics are rows; names are quoted where they have to be") {
  const temporary_folder folder;
  const auto sink = csv_sink(folder / "log");
  sink->write(record_of(1, {{"loss", .1}, {"a,\"b\"\n", -1e300}}));
  sink->write(alert_of(1, "m", "left out"));
  sink->write(record_of(2,
                        {{"x", -quiet_nan}, {"y", infinity}, {"z", -infinity}},
                        phase::validation));
  CHECK(content(folder / "log")
        == "step,phase,name,value\r\n"
           "1,training,loss,0.1\r\n"
           "1,training,\"a,\"\"b\"\"\n\",-1e+300\r\n"
           "2,validation,x,nan\r\n"
           "2,validation,y,inf\r\n"
           "2,validation,z,-inf\r\n");
}

TEST_CASE("a full disk is an error from the header on") {
  CHECK_THROWS_AS(csv_sink("/dev/full"), error);
}
