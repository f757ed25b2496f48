#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <memory>

#include "troupe/base/printable.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/followed_events.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

namespace {

constexpr auto help = R"(
Example:
  troupe events --ops
  troupe events unix:/tmp/x.sock --tensors activation,gradient \
    --match 'blocks.0.*' --every 10 --json

The command ends with Ctrl-C, or with the run. In a job that heals it goes on
with the process that leads the job next.
Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct events_options {
  live_options job;
  bool json = false, histogram = false;
  std::string tensors;
  subscription wants;  // without tensors and histograms
  std::int64_t steps = 0;
};

subscription subscription_of(const events_options& options) {
  auto wants = options.wants;
  wants.tensors = tensor_kinds_of(options.tensors);
  if (options.histogram)
    wants.needs = wants.needs | tensor_needs::histogram;
  return wants;
}

std::string lines_of(const event& what, std::int64_t steps) {
  return std::visit(
    [&]<class Event>(const Event& content) -> std::string {
      if constexpr (requires { content.text(); })
        return content.text();
      else if constexpr (std::is_same_v<Event, step_event>)
        return progress_line(content, steps) + "\n";
      else
        return {};
    },
    what);
}

void print(const event& what, const events_options& options,
           std::int64_t steps) {
  print_now(options.json ? json_text(json_of(what)) + "\n"
                         : plain_text(lines_of(what, steps)));
}

/// Prints events until the job ends, or enough steps are printed.
void stream(followed_job& job, const events_options& options) {
  followed_events events(job, subscription_of(options));
  const auto steps = field<std::int64_t>(job.client().health(), "steps");
  std::int64_t steps_printed = 0;
  const bool is_done = events.stream([&](const live_message& message) {
    log_warning(message);
    if (message.type != "event")
      return true;
    const auto what = event_of(message.content);
    print(what, options, steps);
    steps_printed += std::holds_alternative<step_event>(what) ? 1 : 0;
    return options.steps == 0 || steps_printed < options.steps;
  });
  if (!is_done)
    spdlog::info("the job ended the stream");
}

void add_flags(CLI::App& command, events_options& options) {
  command.add_flag("--json", options.json, "print events as JSON lines");
  command.add_flag("--ops", options.wants.ops, "ops that each rank executed");
  command.add_flag("--messages", options.wants.messages,
                   "what each rank received, with bytes and waits");
  command.add_flag("--memory", options.wants.memory,
                   "memory of each rank's process");
  add_value(command, "--tensors KINDS", options.tensors,
            "statistics of these kinds: activation, input, weight, "
            "activation_gradient, parameter, gradient, loss; or all");
  command.add_flag("--histogram", options.histogram,
                   "with histograms (in JSON)");
  add_value(command, "--match GLOBS", options.wants.names,
            "globs over the names of modules and parameters");
  add_value(command, "--every", options.wants.every, "every so many steps",
            whole_number(1));
  add_value(command, "--steps", options.steps,
            "stop after this many steps; 0: never", whole_number(0));
}

}  // namespace

void add_events_command(CLI::App* command) {
  const auto options = std::make_shared<events_options>();
  options->job.add_to(*command);
  add_flags(*command, *options);
  command->footer(help);
  command->callback([options, command] {
    for (const auto* flag : {"--match", "--histogram"})
      if (options->tensors.empty() && command->count(flag) > 0)
        spdlog::warn("{} without --tensors has no effect", flag);
    subscription_of(*options);  // reports wrong usage before connecting
    auto job = options->job.followed();
    run_until_signal([&] { job.interrupt(); }, [&] { stream(job, *options); });
  });
}

}  // namespace troupe::cli
