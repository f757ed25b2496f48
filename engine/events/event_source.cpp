#include "troupe/engine/events/event_source.hpp"

#include <fmt/format.h>

namespace troupe {

std::string source_text(const event_source& source) {
  auto text = fmt::format("step {}", source.step);
  if (source.data_rank > 0)
    text += fmt::format(" replica {}", source.data_rank);
  if (source.rank >= 0)
    text += fmt::format(" rank {}", source.rank);
  if (source.stage >= 0)
    text += fmt::format(" stage {}", source.stage);
  if (source.microbatch >= 0)
    text += fmt::format(" microbatch {}", source.microbatch);
  return text;
}

}  // namespace troupe
