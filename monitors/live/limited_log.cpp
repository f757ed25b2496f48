#include "troupe/monitors/live/limited_log.hpp"

#include <fmt/format.h>

#include "troupe/base/log_text.hpp"
#include "troupe/engine/events/log.hpp"

namespace troupe {

namespace {

constexpr std::size_t longest_text = std::size_t{8} << 10;

std::string missing_text(std::int64_t count) {
  return fmt::format(
    "{} further messages of attached monitors were not logged, as there were "
    "too many",
    count);
}

}  // namespace

limited_log::~limited_log() {
  if (limit_.suppressed() > 0)
    log()->warn("{}", missing_text(limit_.suppressed()));
}

std::string limited_log::line_for(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  const auto missing = limit_.pass();
  if (!missing)
    return {};
  const auto line = log_text(text, longest_text);
  return *missing > 0 ? fmt::format("{}\n    {}", line, missing_text(*missing))
                      : line;
}

void limited_log::info(const std::string& text) {
  if (const auto line = line_for(text); !line.empty())
    log()->info("{}", line);
}

void limited_log::warn(const std::string& text) {
  if (const auto line = line_for(text); !line.empty())
    log()->warn("{}", line);
}

}  // namespace troupe
