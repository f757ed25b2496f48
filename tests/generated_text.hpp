#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "troupe/engine/generation/generation.hpp"

namespace troupe::testing {

/// A text such as "5 17 (stop); 3 (tokens)", for messages of failed
/// comparisons.
inline std::string text_of(const std::vector<generated>& all) {
  std::string text;
  for (const auto& each : all)
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ",
                        fmt::join(each.ids, " "),
                        each.end ? to_text(*each.end) : "goes on");
  return text;
}

}  // namespace troupe::testing
