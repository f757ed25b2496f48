#include "troupe/monitors/live/subscription_json.hpp"

#include <algorithm>
#include <sstream>

#include "troupe/base/printable.hpp"
#include "troupe/monitors/live/json_archive.hpp"

namespace troupe {

using nlohmann::json;

namespace {

std::string name_of(tensor_kind kind) {
  std::string name = to_text(kind);
  std::ranges::replace(name, ' ', '_');
  return name;
}

template <class Work>
void for_each_kind(tensor_kind set, const Work& work) {
  for (unsigned bit = 1; bit < 128; bit *= 2)
    if (has(set, static_cast<tensor_kind>(bit)))
      work(static_cast<tensor_kind>(bit));
}

tensor_kind kind_of(const std::string& wanted) {
  auto found = tensor_kind::none;
  for_each_kind(largest_value<tensor_kind>, [&](tensor_kind kind) {
    if (name_of(kind) == wanted)
      found = kind;
  });
  if (found == tensor_kind::none)
    fail(error_code::invalid_argument,
         "unknown kind of tensors '{}'; known kinds are {}, and all",
         printable(wanted), names_of(largest_value<tensor_kind>));
  return found;
}

}  // namespace

std::string names_of(tensor_kind set) {
  std::string names;
  for_each_kind(set, [&](tensor_kind kind) {
    names += (names.empty() ? "" : ",") + name_of(kind);
  });
  return names;
}

tensor_kind tensor_kinds_of(const std::string& names) {
  if (names == "all")
    return largest_value<tensor_kind>;
  auto set = tensor_kind::none;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');)
    set = set | kind_of(name);
  return set;
}

template <>
inline constexpr bool may_lack_fields<subscription> = true;

json json_of(const subscription& wants) {
  return to_json(wants);
}

subscription subscription_of(const json& value) {
  subscription made;
  read_json(value, "subscription", made);
  if (made.every < 1 || made.first < 0)
    fail(error_code::invalid_argument,
         "a subscription's 'every' is at least 1, and its 'first' at least 0");
  if (made.names.size() > 1024)
    fail(error_code::invalid_argument,
         "a subscription's 'names' have at most 1024 bytes");
  return made;
}

}  // namespace troupe
