#include "troupe/monitors/progress.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/monitors/monitor_log.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

/// 3e-4 rather than 0.0003 or 3e-04, and 0.01 rather than 10e-3.
std::string short_number(double exact) {
  if (exact == 0)
    return "0";
  const auto value =
    parse_number<double>(fmt::format("{:.2e}", exact)).value_or(exact);
  const auto exponent = static_cast<int>(std::floor(std::log10(value)));
  if (exponent >= -2 && exponent < 4)
    return fmt::format("{:.3g}", value);
  return fmt::format("{:.3g}e{}", value / std::pow(10.0, exponent), exponent);
}

std::string short_count(double value) {
  if (value >= 1e6)
    return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e3)
    return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string losses_text(const step_event& step) {
  std::string text;
  for (const auto& loss : step.losses)
    text += loss.counts()
              ? fmt::format(" {} {:.4f}", loss.name, printable(loss.value))
              : fmt::format(" {} - (no counted tokens)", loss.name);
  for (const auto& metric : step.metrics)
    text += fmt::format(" {} {:.4g}", metric.name, printable(metric.value));
  return text;
}

std::string rate_text(const step_event& step) {
  return fmt::format(" tok/s {}", short_count(tokens_per_second(step)));
}

std::string bar(std::int64_t done, std::int64_t steps) {
  constexpr std::int64_t width = 20;
  const auto filled = steps > 0 ? done * width / steps : 0;
  std::string text;
  for (std::int64_t i = 0; i < width; ++i)
    text += i < filled ? "█" : "░";
  return text;
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_line(const step_event& step, std::int64_t steps,
                          const step_times* times) {
  if (step.source.phase == phase::inference)
    return fmt::format("inference at step {} tokens {}{}", step.source.step,
                       step.tokens, rate_text(step));
  if (step.source.phase == phase::validation)
    return fmt::format("validation at step {}{}", step.source.step,
                       losses_text(step));
  auto line =
    fmt::format("step {}/{}{} grad_norm {:.4g} lr {}", step.source.step, steps,
                losses_text(step), printable(step.gradient_norm),
                short_number(step.learning_rate));
  if (step.loss_scale != 1)
    line += fmt::format(" loss_scale {}", short_number(step.loss_scale));
  if (!step.updated)
    line += " (update skipped)";
  line += rate_text(step);
  if (times)
    line += fmt::format(" bubble {:.0f} % (plan {:.0f} %)", 100 * times->bubble,
                        100 * times->plan_bubble);
  return line + fmt::format(" mem {} MiB", step.resident_bytes / (1024 * 1024));
}

void print_progress(const progress_options& options, const step_event& step,
                    const step_times* times) {
  auto line = progress_line(step, options.steps, times);
  if (options.terminal && step.source.phase == phase::training) {
    const auto left = options.steps - step.source.step;
    line = fmt::format("\033[32m{}\033[0m {} ETA {}",
                       bar(step.source.step, options.steps), line,
                       duration(static_cast<double>(left) * seconds_of(step)));
  }
  if (!print_all(options.out, line + "\n"))
    fail(error_code::io, "the progress can't be written: {}",
         write_problem(errno));
}

monitor progress_monitor(const progress_options& options) {
  return monitor_of_steps(
    "progress",
    [options](const step_event& step, const std::vector<ops_event>& ops) {
      const auto times =
        ops.empty() ? step_times{} : times_of(*ops.front().plan, ops);
      print_progress(options, step, ops.empty() ? nullptr : &times);
    });
}

monitor warning_monitor() {
  monitor result;
  result.name = "warnings";
  result.wants.steps = false;
  result.see = [](const event& what) {
    if (const auto* slow = std::get_if<slow_load_event>(&what))
      log_finding(
        fmt::format("step {}: loading microbatch {} of replica {} took {:.3f} "
                    "s; the pipeline may have waited for it",
                    slow->source.step, slow->source.microbatch,
                    slow->source.data_rank, slow->seconds));
  };
  return result;
}

}  // namespace troupe
