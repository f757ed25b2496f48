#include "troupe/engine/launch/first_host.hpp"

#include <algorithm>
#include <cctype>

namespace troupe {

namespace {

constexpr std::size_t longest_name = 255;  // RFC 1035

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name
         && std::ranges::all_of(text, [](unsigned char c) {
              return c < 128
                     && (std::isalnum(c) || c == '-' || c == '.' || c == '_'
                         || c == ':');
            });
}

}  // namespace

std::optional<std::string> first_of_node_list(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      name += list.front();
      list.remove_prefix(1);
      continue;
    }
    const auto end = list.find(']');
    if (end == std::string_view::npos)
      return {};
    const auto range = list.substr(1, end - 1);
    const auto first = range.substr(0, range.find_first_of(",-"));
    if (first.empty())
      return {};
    name += first;
    list.remove_prefix(end + 1);
  }
  if (!is_name(name))
    return {};
  return name;
}

std::optional<std::string> address_of_mpirun(std::string_view uri) {
  for (const std::string_view kind : {"tcp://", "tcp6://"}) {
    const auto begin = uri.find(kind);
    if (begin == std::string_view::npos)
      continue;
    auto rest = uri.substr(begin + kind.size());
    const bool in_brackets = rest.starts_with('[');
    if (in_brackets)
      rest.remove_prefix(1);
    const auto address =
      rest.substr(0, rest.find_first_of(in_brackets ? ",]" : ",:;"));
    if (is_name(address))
      return in_brackets ? "[" + std::string(address) + "]"
                         : std::string(address);
  }
  return {};
}

std::uint16_t port_of_job(std::string_view job) {
  std::uint32_t hash = 0x811c9dc5U;  // FNV-1a
  for (const auto c : job)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return static_cast<std::uint16_t>(20000 + hash % 10000);
}

}  // namespace troupe
