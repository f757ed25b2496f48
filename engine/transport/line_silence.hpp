#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// How long the connections to a process have received nothing. Used by one
/// thread.
class line_silence {
 public:
  using clock = std::chrono::steady_clock;

  /// Notes how many bytes a connection has received by now. The first call for
  /// a connection begins its time.
  void note(line purpose, std::int64_t bytes, clock::time_point now) {
    const auto [entry, is_new] = last_.try_emplace(purpose, bytes, now);
    if (!is_new && entry->second.bytes != bytes)
      entry->second = {bytes, now};
  }

  struct result {
    clock::duration longest{};
    /// The connection that alone has been silent for longer than the limit, if
    /// there are others.
    std::optional<line> only{};
  };
  result check(clock::duration limit, clock::time_point now) const {
    result silence;
    std::size_t silent = 0;
    for (const auto& [purpose, last] : last_) {
      silence.longest = std::max(silence.longest, now - last.time);
      if (now - last.time <= limit)
        continue;
      ++silent;
      silence.only = purpose;
    }
    if (silent == last_.size())
      silence.only.reset();
    return silence;
  }

 private:
  /// When the number of bytes last changed.
  struct change {
    std::int64_t bytes;
    clock::time_point time;
  };
  std::map<line, change> last_;
};

}  // namespace troupe
