#include "troupe/actors/rank/value_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

bool value_store::has(const value& name) const {
  return std::ranges::any_of(
    held_, [&](const auto& entry) { return entry.first == name; });
}

void value_store::put(const value& name, held_value held) {
  if (has(name))
    fail(error_code::internal, "the {} was made twice", to_text(name));
  held_.emplace_back(name, std::move(held));
}

held_value value_store::take(const value& name) {
  for (auto& entry : held_) {
    if (entry.first != name)
      continue;
    auto held = std::move(entry.second);
    if (&entry != &held_.back())
      entry = std::move(held_.back());
    held_.pop_back();
    return held;
  }
  fail(error_code::internal, "the {} is not there", to_text(name));
}

std::string value_store::left() const {
  constexpr std::size_t most = 4;
  std::string text;
  std::size_t count = 0;
  for (const auto& [name, held] : held_)
    if (++count <= most)
      text += fmt::format("{}the {}", text.empty() ? "" : ", ", to_text(name));
  if (count > most)
    text += fmt::format(" and {} more", count - most);
  return text;
}

}  // namespace troupe
