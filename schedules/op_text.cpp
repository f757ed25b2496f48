#include "troupe/schedules/op_text.hpp"

#include <fmt/format.h>

namespace troupe {

std::string to_text(const op& what, bool with_slice) {
  auto text =
    fmt::format("{}{}{}", what.stage, letter(what.kind), what.microbatch);
  if (with_slice)
    text += fmt::format(".{}", what.slice);
  return text;
}

}  // namespace troupe
