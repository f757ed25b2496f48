#include "troupe/engine/events/globs.hpp"

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

/// How fnmatch would misinterpret it; null if it is fine.
const char* trouble_with(const std::string& glob) {
  if (glob.empty())
    return "is empty";
  for (std::size_t index = 0; index < glob.size(); ++index) {
    if (glob[index] == '\\') {
      if (++index == glob.size())
        return "ends with a backslash";
      continue;
    }
    if (glob[index] != '[')
      continue;
    index += index + 1 < glob.size()
             && (glob[index + 1] == '!' || glob[index + 1] == '^');
    const auto first = index + 1;
    index = glob.find(']', index + 2);  // a leading one belongs to the set
    if (index == std::string::npos)
      return "opens a set with '[' and never closes it";
    for (auto dash = first + 1; dash + 1 < index; ++dash)
      if (glob[dash] == '-' && glob[dash - 1] > glob[dash + 1])
        return "has a range that ends before it begins";
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> globs_of(const std::string& patterns) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= patterns.size();) {
    const auto end = std::min(patterns.find(',', start), patterns.size());
    parts.push_back(patterns.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

void require_globs(const std::string& patterns) {
  for (const auto& glob : globs_of(patterns))
    if (const auto* trouble = trouble_with(glob))
      fail(error_code::invalid_argument,
           "'{}' can't select names: '{}' {}; write globs such as "
           "blocks.*.mlp*, joined by commas",
           printable(patterns), printable(glob), trouble);
}

}  // namespace troupe
