#include "troupe/engine/events/globs.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

/// How fnmatch would misinterpret it; null if it is fine.
const char* trouble_with(const std::string& glob) {
  if (glob.empty())
    return "is empty";
  for (std::size_t at = 0; at < glob.size(); ++at) {
    if (glob[at] == '\\') {
      if (++at == glob.size())
        return "ends with a backslash";
      continue;
    }
    if (glob[at] != '[')
      continue;
    at += at + 1 < glob.size() && (glob[at + 1] == '!' || glob[at + 1] == '^');
    const auto first = at + 1;
    at = glob.find(']', at + 2);  // a leading one belongs to the set
    if (at == std::string::npos)
      return "opens a set with '[' and never closes it";
    for (auto dash = first + 1; dash + 1 < at; ++dash)
      if (glob[dash] == '-' && glob[dash - 1] > glob[dash + 1])
        return "has a range that ends before it begins";
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> globs_of(const std::string& patterns) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= patterns.size();) {
    const auto to = std::min(patterns.find(',', from), patterns.size());
    parts.push_back(patterns.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

void require_globs(const std::string& patterns) {
  for (const auto& glob : globs_of(patterns))
    if (const auto* trouble = trouble_with(glob))
      fail(error_code::invalid_argument,
           "'{}' can't choose names: '{}' {}; write globs such as "
           "blocks.*.mlp*, joined by commas",
           printable(patterns), printable(glob), trouble);
}

}  // namespace troupe
