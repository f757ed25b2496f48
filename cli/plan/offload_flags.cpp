#include "troupe/cli/plan/offload_flags.hpp"

#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <utility>

#include "troupe/cli/plan/checks.hpp"

namespace troupe::cli {

void offload_flags::add_to(CLI::App& command) {
  command
    .add_option_function<std::string>(
      "--offload-activations",
      [this](const std::string& text) { what_ = text.empty() ? "1" : text; },
      "offload activations that forwards keep for their backwards to host "
      "memory (OFFLOAD, RELOAD): all, a fraction, or by stage: "
      "all=0.5,stage.0=1; or a file of such entries")
    ->expected(0, 1)
    ->type_name("[FRACTION|ENTRIES|FILE]");
  command
    .add_option("--offload-ahead", ahead_,
                "start reloads this many ops of the rank before the backward: "
                "more hides a slower copy and holds memory longer")
    ->capture_default_str()
    ->check(whole_number(1, 1 << 20))
    ->type_name("N");
  command
    .add_option("--offload-least-stay", least_stay_,
                "least number of ops between a forward and its backward for an "
                "offload; 0: two more than --offload-ahead")
    ->check(whole_number(0, 1 << 20))
    ->type_name("N");
}

offload_options offload_flags::options() const {
  auto made = what_.empty() ? offload_options{} : load_offload(what_);
  made.ahead = ahead_;
  made.least_stay = least_stay_;
  if (!offloads(made)
      && (ahead_ != offload_options{}.ahead
          || least_stay_ != offload_options{}.least_stay))
    spdlog::warn(
      "--offload-ahead and --offload-least-stay have no effect without "
      "--offload-activations");
  return made;
}

plan offload_flags::apply(plan before) const {
  const auto made = options();
  return offloads(made) ? offloaded(before, made) : std::move(before);
}

}  // namespace troupe::cli
