#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// When bytes last came from a process, by its connections. One thread.
class heard_lines {
 public:
  using clock = std::chrono::steady_clock;

  /// The bytes that have come by now; one that is new counts as heard.
  void note(line which, std::int64_t bytes, clock::time_point now) {
    const auto [entry, is_new] = last_.try_emplace(which, bytes, now);
    if (!is_new && entry->second.bytes != bytes)
      entry->second = {bytes, now};
  }

  struct silence {
    clock::duration longest{};
    /// The connection that is the only silent one; none: all are, or none is.
    std::optional<line> only{};
  };
  silence longer_than(clock::duration limit, clock::time_point now) const {
    silence found;
    std::size_t silent = 0;
    for (const auto& [which, heard] : last_) {
      found.longest = std::max(found.longest, now - heard.at);
      if (now - heard.at <= limit)
        continue;
      ++silent;
      found.only = which;
    }
    if (silent == last_.size())
      found.only.reset();
    return found;
  }

 private:
  struct sign {
    std::int64_t bytes;
    clock::time_point at;
  };
  std::map<line, sign> last_;
};

}  // namespace troupe
