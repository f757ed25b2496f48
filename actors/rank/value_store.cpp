#include "troupe/actors/rank/value_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"

namespace troupe {

/// A step's values differ in few bits, which are packed before they are mixed.
std::size_t value_store::value_hash::operator()(const value& name) const {
  const auto stages = (static_cast<std::uint64_t>(name.from) << 32)
                      ^ static_cast<std::uint64_t>(name.to);
  const auto rest = (static_cast<std::uint64_t>(name.microbatch) << 32)
                    ^ (static_cast<std::uint64_t>(name.slice) << 16)
                    ^ (static_cast<std::uint64_t>(name.copy) << 8)
                    ^ static_cast<std::uint64_t>(name.kind);
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const auto mixed = (stages * odd ^ rest) * odd;
  return mixed ^ (mixed >> 32);
}

bool value_store::has(const value& name) const {
  return held_.contains(name);
}

void value_store::put(const value& name, held_value held) {
  bool is_new = false;
  if (spare_.empty()) {
    is_new = held_.emplace(name, std::move(held)).second;
  } else {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = name;
    node.mapped() = std::move(held);
    is_new = held_.insert(std::move(node)).inserted;
  }
  if (!is_new)
    fail(error_code::internal, "the {} was made twice", to_text(name));
}

held_value value_store::take(const value& name) {
  auto node = held_.extract(name);
  if (node.empty())
    fail(error_code::internal, "the {} is missing", to_text(name));
  auto held = std::exchange(node.mapped(), {});
  spare_.push_back(std::move(node));
  return held;
}

std::string value_store::left() const {
  constexpr std::size_t most = 4;
  std::vector<value> names;
  for (const auto& [name, held] : held_)
    names.push_back(name);
  std::ranges::sort(names);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += fmt::format("{}the {}", i == 0 ? "" : ", ", to_text(names[i]));
  if (names.size() > most)
    text += fmt::format(" and {} more", names.size() - most);
  return text;
}

}  // namespace troupe
