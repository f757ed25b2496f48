#include "troupe/schedules/op.hpp"

#include <fmt/format.h>

namespace troupe {

std::string to_text(const op& what, bool with_slice) {
  auto text =
    fmt::format("{}{}{}", what.stage, letter(what.kind), what.microbatch);
  if (with_slice || what.slice != 0)
    text += fmt::format(".{}", what.slice);
  if (what.copy != 0)
    text += fmt::format("@{}", what.copy);
  return text;
}

}  // namespace troupe
