#include "troupe/monitors/spec/monitor_spec.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"
#include "troupe/monitors/metrics.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

monitor monitor_of(const std::string& spec) {
  monitor_context context;
  context.sink = callback_sink({});
  context.observe_every = [](std::int64_t) {};
  return make_monitor(spec, context);
}

void refused(const std::string& spec, const std::string& because) {
  try {
    monitor_of(spec);
    FAIL(spec);
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::invalid_argument);
    CHECK_THAT(reason.what(), ContainsSubstring(because));
  }
}

}  // namespace

TEST_CASE("a monitor is made of its name and settings") {
  CHECK(monitor_of("gap").wants.every == 1);
  const auto gap =
    monitor_of("gap:every=10,match=blocks.*,head,histogram=true");
  CHECK(gap.wants.every == 10);
  CHECK(gap.wants.names == "blocks.*,head");
  CHECK(gap.wants.needs == tensor_needs::histogram);
  CHECK(monitor_of("gap:sample=0.01,seed=7").wants.sample
        == row_sampling{0.01, 7});
  const auto dump =
    monitor_of("gradient_dump:start=5,end=9,every=2,save_first_n=3");
  CHECK(dump.wants.covers_step(7));
  CHECK_FALSE(dump.wants.covers_step(6));
  CHECK_FALSE(dump.wants.covers_step(11));
  CHECK(monitor_of("overflow").wants.watches);
  CHECK(monitor_of("overflow:reading=watch").wants.watches);
  for (const auto* name : {"overflow:reading=full", "overflow:trace=0,3",
                           "overflow:underflow_share=0.5"})
    CHECK_FALSE(monitor_of(name).wants.watches);
  for (const auto* name : {"overflow:trace=0,3", "stability", "throughput",
                           "timeline:svg=a.svg", "retro", "budget:share=0.1"})
    CHECK_FALSE(monitor_of(name).name.empty());
}

TEST_CASE("a spec that can't be meant says what is wrong and what there is") {
  refused("nope", "known monitors are gap, gradient_dump, overflow");
  refused("gap:evrey=3", "has every, match, histogram");
  refused("gap:10", "write key=value");
  refused("gap:every=ten", "every=ten is not a whole number");
  refused("gap:histogram=yes", "true or false");
  refused("gap:every=0", "use 1 or more steps");
  refused("gap:sample=1%", "sample=1% is not a number");
  refused("gap:sample=2", "sample is 2; use a share of the rows from 0 to 1");
  refused("gap:sample=nan", "from 0 to 1");
  refused("gap:sample=0.1,histogram=true", "leave one of the two out");
  refused("overflow:trace=1,x", "trace=x is not whole numbers");
  refused("timeline", "svg=FILE");
  refused("timeline:trace=x,steps=0", "steps is 0; use 1 or more");
  refused("overflow:frames=1001", "frames is 1001; use 1 to 1000");
  refused("overflow:reading=all", "reading=all is not watch or full");
  refused("overflow:reading=watch,trace=1",
          "trace needs the tensors of healthy steps");
  refused("overflow:reading=watch,underflow_share=0.5", "use reading=full");
  refused("gap:match=true", "is its value missing?");
  refused("budget:share=nan", "share");
  refused("retro:max_abs=-1", "max_abs is -1 and loss_factor 0; use 0 (off)");
  refused("retro:loss_factor=nan", "loss_factor nan");
  refused("throughput:peak_flops=nan", "peak_flops and parameters of 0");
  refused("", "unknown monitor ''");
  refused("overflo", "unknown monitor 'overflo'; did you mean overflow?");
}

TEST_CASE("where troupe names the files, a spec says which are wanted") {
  monitor_context context;
  context.folder = [] { return std::string("attached"); };
  CHECK_THROWS_WITH(make_monitor("timeline", context),
                    ContainsSubstring("svg=true or trace=true"));
}

TEST_CASE("gradient_dump may hold the gradients of any model") {
  monitor_context context;
  const auto kept_bytes_limit = [&](const std::string& spec) {
    return make_monitor(spec, context).limits.held_bytes;
  };
  constexpr std::int64_t gib = 1 << 30;
  CHECK(kept_bytes_limit("gradient_dump") == gib);
  context.parameters = 300'000'000;
  CHECK(kept_bytes_limit("gradient_dump") == 2 * 4 * context.parameters);
  CHECK(kept_bytes_limit("gradient_dump:held_gib=0.5") == gib / 2);
  CHECK(kept_bytes_limit("gradient_dump:held_gib=40") == 40 * gib);
  refused("gradient_dump:held_gib=0", "use a size above 0");
  refused("gradient_dump:held_gib=nan", "use a size above 0");
}

TEST_CASE("a monitor without what it writes to is refused when it is made") {
  const auto refuses = [](const auto& make, const std::string& why) {
    CHECK_THROWS_MATCHES(make(), error, MessageMatches(ContainsSubstring(why)));
  };
  monitor_context context;
  context.observe_every = [](std::int64_t) {};
  for (const auto* spec :
       {"gap", "overflow", "stability", "throughput", "retro", "budget"})
    refuses([&] { return make_monitor(spec, context); }, "the sink is null");
  refuses([] { return step_metrics_monitor(nullptr); }, "the sink is null");
  refuses(
    [] {
      return join({callback_sink({}), nullptr});
    },
    "the sink is null");
  context.sink = callback_sink({});
  context.observe_every = {};
  refuses([&] { return make_monitor("budget", context); },
          "observe_every is empty");
}

TEST_CASE("the help names every monitor") {
  for (const auto* name : {"gap", "gradient_dump", "overflow", "stability",
                           "throughput", "timeline", "retro", "budget"})
    CHECK_THAT(monitor_help(), ContainsSubstring(name));
}
