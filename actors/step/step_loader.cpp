#include "troupe/actors/step/step_loader.hpp"

#include <utility>

#include "troupe/engine/device/clock.hpp"

namespace troupe {

std::vector<microbatch_data> step_loader::take(const source_pointer& source,
                                               std::int64_t first) {
  auto ahead = std::exchange(ahead_, {});
  const bool of_use =
    source == std::exchange(ahead_of_, nullptr) && first == ahead_first_;
  return of_use ? std::move(ahead) : load(*source, first);
}

void step_loader::make_ahead(const source_pointer& source, std::int64_t first) {
  ahead_ = load(*source, first);
  ahead_of_ = ahead_.empty() ? nullptr : source;
  ahead_first_ = first;
}

std::vector<microbatch_data> step_loader::load(const microbatch_source& source,
                                               std::int64_t first) const {
  if (source.size() >= 0 && first + microbatches_ > source.size())
    return {};
  std::vector<microbatch_data> made;
  try {
    for (std::int64_t k = 0; k < microbatches_; ++k) {
      const auto begin = now_ns();
      made.push_back(source.at(first + k));
      const auto seconds = static_cast<double>(now_ns() - begin) * 1e-9;
      if (seconds > slow_seconds_)
        report_(k, seconds);
    }
  } catch (...) {
    return {};
  }
  return made;
}

}  // namespace troupe
