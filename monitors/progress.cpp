#include "troupe/monitors/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/median.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/status_line.hpp"
#include "troupe/base/text_columns.hpp"
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
  return fmt::format(" tok/s {}", count_text(tokens_per_second(step)));
}

std::string bubble_text(const step_times& times) {
  return fmt::format("bubble {:.0f} % (plan {:.0f} %)", 100 * times.bubble,
                     100 * times.plan_bubble);
}

std::string memory_text(const step_event& step) {
  return fmt::format("mem {} MiB", step.resident_bytes / (1024 * 1024));
}

std::string bar(std::int64_t done, std::int64_t steps) {
  constexpr std::int64_t width = 20;
  const auto filled = steps > 0 ? done * width / steps : 0;
  std::string text;
  for (std::int64_t i = 0; i < width; ++i)
    text += i < filled ? "█" : "░";
  return text;
}

/// A part of the line on a terminal. Parts of little importance give way where
/// the terminal is narrow.
struct line_part {
  std::string text;
  int importance;  // 0: always shown
};

std::string joined(const std::vector<line_part>& parts) {
  std::string text;
  for (const auto& each : parts)
    text += (text.empty() ? "" : " ") + each.text;
  return text;
}

std::string fitted(std::vector<line_part> parts, std::size_t columns) {
  auto text = joined(parts);
  while (columns_of(text) > columns) {
    const auto least =
      std::ranges::max_element(parts, {}, &line_part::importance);
    if (least->importance == 0)
      return clipped(text, columns);
    parts.erase(least);
    text = joined(parts);
  }
  return text;
}

std::vector<line_part> parts_of(const step_event& step, const step_times* times,
                                const progress_options& options, double left) {
  std::vector<line_part> parts{
    {bar(step.source.step, options.steps), 10},
    {fmt::format("step {}/{}", step.source.step, options.steps), 0},
    {losses_text(step).erase(0, 1), 1},
    {fmt::format("grad_norm {:.4g}", printable(step.gradient_norm)), 6},
    {fmt::format("lr {}", short_number(step.learning_rate)), 9}};
  if (step.loss_scale != 1)
    parts.push_back(
      {fmt::format("loss_scale {}", short_number(step.loss_scale)), 7});
  if (!step.updated)
    parts.push_back({"(update skipped)", 4});
  parts.push_back({rate_text(step).erase(0, 1), 3});
  if (times)
    parts.push_back({bubble_text(*times), 5});
  parts.push_back({memory_text(step), 8});
  parts.push_back({"ETA " + duration_text(left), 2});
  return parts;
}

std::size_t width_of(std::FILE* terminal) {
  winsize size{};
  const bool is_known = ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0;
  return is_known && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole < 3600)
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60,
                     whole % 60);
}

std::string count_text(double value) {
  if (value >= 1e6)
    return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e3)
    return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

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
    line += " " + bubble_text(*times);
  return line + " " + memory_text(step);
}

void progress_printer::print(const step_event& step, const step_times* times) {
  if (unread_)
    return;
  if (options_.terminal && step.source.phase == phase::training)
    return redraw(step, times);
  clear_status_line();
  require_printed(
    print_all(options_.out, progress_line(step, options_.steps, times) + "\n"));
}

void progress_printer::require_printed(bool printed) {
  if (printed)
    return;
  if (errno != EPIPE || !options_.reader_left)
    fail(error_code::io, "standard output can't be written: {}",
         write_problem(errno));
  unread_ = true;
  options_.reader_left();
}

void progress_printer::redraw(const step_event& step, const step_times* times) {
  constexpr std::size_t most_samples = 101;
  constexpr std::int64_t least_pause = 100'000'000;  // ns
  const auto begin = last_end_ > 0 ? last_end_ : step.begin;
  seconds_.push_back(static_cast<double>(step.end - begin) * 1e-9);
  if (seconds_.size() > most_samples)
    seconds_.pop_front();
  last_end_ = step.end;
  const auto left = options_.steps - step.source.step;
  if (left > 0 && drawn_at_ > 0 && step.end - drawn_at_ < least_pause)
    return;
  drawn_at_ = step.end;
  const auto columns = options_.columns > 0
                         ? static_cast<std::size_t>(options_.columns)
                         : width_of(options_.out);
  // A terminal wraps a line that fills its last column.
  const auto text =
    fitted(parts_of(step, times, options_,
                    static_cast<double>(left) * median(seconds_)),
           columns - 1);
  require_printed(show_status_line(options_.out, text));
}

monitor progress_monitor(const progress_options& options) {
  const auto printer = std::make_shared<progress_printer>(options);
  return monitor_of_steps(
    "progress",
    [printer](const step_event& step, const std::vector<ops_event>& ops) {
      const auto times =
        ops.empty() ? step_times{} : times_of(*ops.front().plan, ops);
      printer->print(step, ops.empty() ? nullptr : &times);
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
