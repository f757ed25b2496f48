#include "troupe/monitors/sinks/terminal_sink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "troupe/base/error.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

namespace {

constexpr auto whole = std::string::npos;

std::string place_text(const event_source& source) {
  return source.phase == phase::training
           ? fmt::format("step {}", source.step)
           : fmt::format("{} at step {}", phase_name(source.phase),
                         source.step);
}

double size_of(const metric& one) {
  return std::isnan(one.value) ? std::numeric_limits<double>::infinity()
                               : std::abs(one.value);
}

bool is_larger(const metric& a, const metric& b) {
  const auto key = [](const metric& one) {
    return std::pair(std::isnan(one.value), size_of(one));
  };
  return key(a) > key(b);
}

/// One line stands beside the monitor's name, several under it.
std::string block_of(const alert& alert) {
  if (alert.text.find('\n') == whole)
    return fmt::format("{}: {}\n", printable(alert.monitor, whole),
                       printable(alert.text, whole));
  auto block = printable(alert.monitor, whole) + ":\n";
  for (std::size_t start = 0; start < alert.text.size();) {
    const auto end = std::min(alert.text.find('\n', start), alert.text.size());
    const auto line = alert.text.substr(start, end - start);
    block += fmt::format("  {}\n", printable(line, whole));
    start = end + 1;
  }
  return block;
}

class printing_sink final : public sink {
 public:
  explicit printing_sink(const terminal_options& options)
    : options_(options),
      colour_(options.colour.value_or(::isatty(::fileno(options.out)) == 1)) {}

  void write(const metrics_record& record) override {
    if (options_.match.empty())
      return;
    std::string lines;
    for (const auto& each : largest(record.values))
      lines += fmt::format("{} {} {:.6g}\n", place_text(record.source),
                           printable(each.name, whole), each.value);
    print(lines);
  }

  void write(const alert& alert) override {
    auto block = block_of(alert);
    if (colour_)
      block.insert(block.size() - 1, "\033[0m").insert(0, "\033[1;31m");
    print(block);
  }

 private:
  std::vector<metric> largest(const std::vector<metric>& values) const {
    std::vector<metric> found;
    for (const auto& each : values)
      if (matches_glob(options_.match, each.name))
        found.push_back(each);
    std::ranges::stable_sort(found, is_larger);
    found.resize(std::min(found.size(), options_.top));
    return found;
  }

  void print(const std::string& text) {
    const std::lock_guard lock(mutex_);
    print_all(options_.out, text);
  }

  terminal_options options_;
  bool colour_;
  std::mutex mutex_;
};

}  // namespace

sink_pointer terminal_sink(const terminal_options& options) {
  if (options.top == 0)
    throw error(error_code::invalid_argument,
                "terminal: top is 0; use 1 or more, or no match=");
  return std::make_shared<printing_sink>(options);
}

}  // namespace troupe
