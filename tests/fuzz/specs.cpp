// --monitor, --sink and --parameters. Specs that would name a file elsewhere
// are skipped.
#include <fmt/format.h>

#include <filesystem>

#include "../temporary_folder.hpp"
#include "parse.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

/// Relative names of files are then in this folder.
void enter_own_folder() {
  static const testing::temporary_folder folder;
  std::filesystem::current_path(folder / "");
}

const monitor_context& context() {
  static const auto shared = [] {
    monitor_context one;
    one.run_plan = std::make_shared<const plan>(
      compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 2}), {}));
    one.sink = callback_sink({});
    one.observe_every = [](std::int64_t) {};
    one.print = [](const std::string&) {};
    return one;
  }();
  return shared;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto choice = testing::take_choice(text) % 3;
    if (choice == 2) {
      const auto group = parse_parameter_group(std::string(text));
      group_of({group}, "blocks.3.attention.query");
      return;
    }
    constexpr std::string_view elsewhere("/.\0", 3);
    if (text.find_first_of(elsewhere) != std::string_view::npos)
      return;
    enter_own_folder();
    if (choice == 1)
      return require_sink(std::string(text));
    const auto result = make_monitor(std::string(text), context());
    require_legal(result.wants);
    matches_glob(result.wants.names, "blocks.3.attention.query");
  });
}
