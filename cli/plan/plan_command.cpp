#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/plan/terminal.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/shard.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/cpp_text.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe::cli {

namespace {

struct plan_options {
  schedule_options source;
  bool global_norm = false;
  bool sharded = false;
  offload_flags offload;
  bool lower = false;
  std::string format{};  // empty: by the name of the file, else a table
  std::string theme = "auto";
  std::string output;
  std::int32_t width = 0;
};

terminal_style style_of_output(const plan_options& options) {
  terminal_style style{.unicode = shows_unicode()};
  winsize size{};
  if (options.output.empty() && isatty(STDOUT_FILENO) != 0) {
    style.colour = shows_colours();
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
      style.width = size.ws_col;
  }
  if (options.width > 0)
    style.width = options.width;
  return style;
}

std::string lanes_table(const plan& plan) {
  std::string text;
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
    text += fmt::format("rank {:<3}", rank);
    for (const auto& what : plan.lane(rank))
      text += ' ' + to_text(plan, what);
    text += '\n';
  }
  return text;
}

std::string channels_table(const plan& plan) {
  if (plan.channels.empty())
    return {};
  auto text = fmt::format("{:<10} {:<10} {:>8} {:>7}\n", "edge", "carries",
                          "messages", "credits");
  for (const auto& channel : plan.channels)
    text +=
      fmt::format("{:<10} {:<10} {:>8} {:>7}\n",
                  fmt::format("{}->{}", channel.from_rank, channel.to_rank),
                  channel.backward ? "gradients" : "outputs", channel.messages,
                  channel.credits);
  return text;
}

/// With the default costs.
simulation timed(const plan& plan, const plan_options& options) {
  return simulate(plan, divided(op_costs{}, options.source.searching.per_stage
                                              ? division{}
                                              : division_of(plan)));
}

std::string table(const plan& plan, const plan_options& options) {
  const auto times = timed(plan, options);
  const auto cut = division_of(plan);
  const bool is_cut = cut.stages * cut.slices > 1;
  auto text = fmt::format(
    "{}: {}\n"
    "makespan {:.6g} (forward 1, backward 2{}, messages free), idle {:.1f} %\n",
    printable(plan.schedule_name), sizes_of(plan), times.makespan,
    !is_cut                              ? ""
    : options.source.searching.per_stage ? " per stage and slice"
                                         : " of a rank's layers",
    100 * times.bubble);
  if (plan.update.every > 0)
    text += fmt::format(
      "{} updates of each stage; forwards read parameters that lag by {} of "
      "them at most\n",
      updates_of(plan), std::ranges::max(staleness_of(plan)));
  if (options.lower)
    return text + lanes_table(plan) + channels_table(plan);
  const auto picture = to_timeline(plan, times);
  return text + draw_terminal(picture, style_of_output(options))
         + terminal_legend(picture) + channels_table(plan);
}

// Sharded stages reduce their gradients, so they need at least two replicas.
plan compiled(const schedule& lanes, const plan_options& options) {
  const auto least_replicas = options.sharded ? 2 : 1;
  auto compiled = compile(
    lanes,
    {.data_parallel = std::max(options.source.data_parallel, least_replicas),
     .global_norm = options.global_norm,
     .tied = options.source.tied(lanes)});
  compiled = options.offload.apply(std::move(compiled));
  return options.sharded ? sharded(compiled) : std::move(compiled);
}

void warn_of_dropped(const plan_options& options) {
  const auto& format = options.format;
  const bool of_lanes = format == "cpp" || format == "schedule"
                        || (format == "csv" && !options.lower);
  if (options.global_norm && (of_lanes || format == "csv"))
    spdlog::warn(
      "--global-norm has no effect with --format {}, which holds no norms and "
      "updates; --format plan does",
      format);
  if (options.sharded && of_lanes)
    spdlog::warn(
      "--sharded has no effect with --format {}, which holds no gathers; "
      "--format plan does",
      format);
}

std::string render(const plan_options& options) {
  warn_of_dropped(options);
  if (options.source.searching.is_set()
      && options.source.schedule != search_name)
    spdlog::warn(
      "--costs, --sizes and --memory-limit have no effect without --schedule "
      "search");
  const auto lanes = options.source.find();
  if (options.format == "csv" && !options.lower) {
    compile(lanes);  // refuses deadlocks
    return to_csv(lanes);
  }
  if (options.format == "cpp")
    return to_cpp(lanes);
  if (options.format == "schedule")
    return to_text_form(lanes);
  const auto plan = compiled(lanes, options);
  if (options.format == "csv")
    return to_lowered_csv(plan);
  if (options.format == "json")
    return to_json(plan);
  if (options.format == "plan" || options.format == "text")
    return to_text(plan);
  if (options.format == "table")
    return table(plan, options);
  const auto picture = to_timeline(plan, timed(plan, options));
  return options.format == "svg"
           ? draw_svg(picture, parse_theme(options.theme), options.width)
           : draw_trace(picture);
}

void add_compile_flags(CLI::App& command, plan_options& options) {
  command.add_flag("--global-norm", options.global_norm,
                   "make updates wait for the gradient norm over all stages, "
                   "as required by clipping and a dynamic loss scale");
  command.add_flag(
    "--sharded", options.sharded,
    "shard the stages' parameters over the replicas: adds UNSHARD, RESHARD and "
    "REDUCE_GRAD where PyTorch's pipelining does");
  command.option_defaults()->group(
    "Search: of --schedule search, for costs and a memory limit");
  options.source.searching.add_to(command);
  options.source.searching.add_per_stage(command);
  command.option_defaults()->group("Offloading: of activations to host memory");
  options.offload.add_to(command);
}

/// The format that a file's name asks for.
std::string format_of(const std::string& file) {
  const auto ending = std::filesystem::path(file).extension().string();
  for (const auto* format : {"csv", "json", "svg", "cpp", "schedule", "plan"})
    if (ending == fmt::format(".{}", format))
      return format;
  return "table";
}

void add_output_flags(CLI::App& command, plan_options& options) {
  command.option_defaults()->group("Output: its format, width and file");
  command.add_flag("--lower", options.lower,
                   "with table and csv: include the transfers");
  add_value(command, "--format FORMAT", options.format,
            "table, csv, json, svg, trace (Chrome, Perfetto), cpp (a function "
            "that makes the schedule), schedule (its text form, with slices "
            "and copies) or plan (compiled); `train` reads these two and csv, "
            "`verify` and `simulate` plans and csv; default: by the name of "
            "--output, as x.svg, else table",
            one_of({"table", "csv", "json", "svg", "trace", "plan", "text",
                    "cpp", "schedule"}));
  command
    .add_flag_callback(
      "--json", [&options] { options.format = "json"; }, "as --format json")
    ->excludes("--format");
  add_value(command, "--width N", options.width,
            "columns of the table; default: the terminal's, or 100; of svg: "
            "pixels; default: as many as its numbers need",
            whole_number(20, 10000));
  add_value(command, "--theme THEME", options.theme,
            "of svg: light, dark, or auto: as the reader's system prefers",
            one_of({"auto", "light", "dark"}))
    ->capture_default_str();
  add_value(command, "-o,--output FILE", options.output,
            "file; else the terminal");
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto* command = app.add_subcommand("plan", "compile a schedule and show it");
  const auto options = std::make_shared<plan_options>();
  options->source.add_to(*command);
  add_value(*command, "SCHEDULE NAME|FILE", options->source.schedule,
            "the schedule, as --schedule takes it")
    ->excludes("--schedule");
  add_compile_flags(*command, *options);
  add_output_flags(*command, *options);
  command->footer(list_schedules() +
                  "\nExample:\n  troupe plan --schedule 1f1b --ranks 4 "
                  "--microbatches 8 \\\n    --format svg -o 1f1b.svg");
  command->callback([options] {
    if (options->format.empty())
      options->format = format_of(options->output);
    write_output(options->output, render(*options));
  });
}

}  // namespace troupe::cli
