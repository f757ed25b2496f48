#include "troupe/monitors/sinks/sink_spec.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>

#include "../../temporary_folder.hpp"
#include "../../write_secret.hpp"
#include "records.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("files are named as they are, whatever is in their names") {
  const temporary_folder folder;
  make_sink("json:" + folder / "a,b=c:d")->write(record_of(1, {}));
  CHECK_THAT(content(folder / "a,b=c:d"), ContainsSubstring("metrics"));
  make_sink("csv:" + folder / "t")->write(record_of(1, {{"loss", 1}}));
  CHECK_THAT(content(folder / "t"), ContainsSubstring("1,training,loss,1"));
  make_sink("tensorboard:" + folder / "runs");
  CHECK_FALSE(std::filesystem::is_empty(folder / "runs"));
}

TEST_CASE("the others have settings") {
  CHECK(make_sink("terminal"));
  CHECK(make_sink("terminal:match=gap/*,spike/*,top=3"));
  CHECK(make_sink("prometheus:127.0.0.1:0"));
  const temporary_folder folder;
  const auto token = write_secret(folder, "open-sesame-please");
  CHECK(make_sink("prometheus:0.0.0.0:0,token_file=" + token));
}

TEST_CASE("what isn't known is refused with what is") {
  const auto refuses = [](const std::string& spec, const std::string& with) {
    CAPTURE(spec);
    CHECK_THROWS_MATCHES(make_sink(spec), error,
                         MessageMatches(ContainsSubstring(with)));
    CHECK_THROWS_MATCHES(require_sink(spec), error,
                         MessageMatches(ContainsSubstring(with)));
  };
  refuses("graphite:x",
          "unknown sink 'graphite'; known sinks are:\n" + sink_help());
  refuses("", "unknown sink ''");
  refuses("tensorbord:x",
          "unknown sink 'tensorbord'; did you mean tensorboard?");
  refuses("json", "sink json: write json:FILE");
  refuses("csv:", "sink csv: write csv:FILE");
  refuses("terminal:colour=1", "no setting 'colour'; it has match, top");
  refuses("terminal:gap", "'gap' is not a setting");
  refuses("terminal:top=x", "top=x is not a whole number");
  refuses("terminal:top=0", "top is 0");
  refuses("prometheus:localhost:0,token=x", "no setting 'token'");
  refuses("prometheus:0.0.0.0:0", "give a token");
  refuses("prometheus:localhost:0,token_file=", "is empty");
  refuses("json:/no/such/folder/x", "can't be created");
  refuses("tensorboard:" + std::string(300, 'x'), "File name too long");
}

TEST_CASE("a look at a spec makes nothing") {
  const temporary_folder folder;
  for (const auto* kind : {"json:", "csv:", "tensorboard:"})
    require_sink(kind + (folder / "made"));
  require_sink("terminal:top=3");
  require_sink("prometheus:127.0.0.1:0");
  CHECK_FALSE(std::filesystem::exists(folder / "made"));
}

TEST_CASE("help has a line for each") {
  for (const auto* name :
       {"terminal", "json", "csv", "tensorboard", "prometheus"})
    CHECK_THAT(sink_help(), ContainsSubstring(std::string("  ") + name));
}
