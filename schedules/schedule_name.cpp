#include "troupe/schedules/schedule_name.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool is_plain(char c) {
  constexpr std::string_view others = " _-+.,:/";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
         || (c >= '0' && c <= '9') || others.find(c) != others.npos;
}

}  // namespace

std::string schedule_name(std::string_view text) {
  constexpr std::size_t longest = 200;
  std::string name(text.substr(0, longest));
  std::ranges::replace_if(
    name, [](char c) { return !is_plain(c); }, '_');
  return name;
}

}  // namespace troupe
