#include "troupe/monitors/live/subscription_json.hpp"

#include <fmt/format.h>

#include <array>
#include <sstream>

#include "troupe/base/printable.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<const char*, tensor_kind>, 7> kinds{{
  {"activation", tensor_kind::activation},
  {"input", tensor_kind::input},
  {"weight", tensor_kind::weight},
  {"activation_gradient", tensor_kind::activation_gradient},
  {"parameter", tensor_kind::parameter},
  {"gradient", tensor_kind::gradient},
  {"loss", tensor_kind::loss},
}};

std::string names_of(tensor_kind set) {
  std::string names;
  for (const auto& [name, kind] : kinds)
    if (has(set, kind))
      names += (names.empty() ? "" : ",") + std::string{name};
  return names;
}

tensor_kind kind_of(const std::string& wanted) {
  for (const auto& [name, kind] : kinds)
    if (wanted == name)
      return kind;
  fail(error_code::invalid_argument,
       "'{}' is no kind of tensors; there are {}, and all", printable(wanted),
       names_of(static_cast<tensor_kind>(127)));
}

void read_flag(const json& value, const char* name, bool& into) {
  if (value.contains(name))
    into = flag_of(value, name);
}

void read_steps(const json& value, subscription& into) {
  if (value.contains("every"))
    read_whole(value, "every", into.every);
  if (value.contains("first"))
    read_whole(value, "first", into.first);
  if (value.contains("last"))
    read_whole(value, "last", into.last);
  if (into.every < 1 || into.first < 0)
    fail(error_code::invalid_argument,
         "a subscription's 'every' is at least 1, and its 'first' at least 0");
}

void read_tensors(const json& value, subscription& into) {
  if (value.contains("tensors"))
    into.tensors = tensor_kinds_of(text_of(value, "tensors"));
  if (value.contains("histogram") && flag_of(value, "histogram"))
    into.needs = tensor_needs::statistics | tensor_needs::histogram;
  if (value.contains("names"))
    into.names = text_of(value, "names");
  if (into.names.size() > 1024)
    fail(error_code::invalid_argument,
         "a subscription's 'names' have at most 1024 bytes");
}

}  // namespace

tensor_kind tensor_kinds_of(const std::string& names) {
  if (names == "all")
    return static_cast<tensor_kind>(127);
  auto set = tensor_kind::none;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');)
    set = set | kind_of(name);
  return set;
}

json json_of(const subscription& wants) {
  return {{"ops", wants.ops},
          {"messages", wants.messages},
          {"memory", wants.memory},
          {"steps", wants.steps},
          {"warnings", wants.warnings},
          {"tensors", names_of(wants.tensors)},
          {"histogram", has(wants.needs, tensor_needs::histogram)},
          {"names", wants.names},
          {"every", wants.every},
          {"first", wants.first},
          {"last", wants.last},
          {"validation", wants.validation}};
}

subscription subscription_of(const json& value) {
  if (!value.is_object())
    fail(error_code::malformed_text, "the subscription is no object");
  subscription made;
  read_flag(value, "ops", made.ops);
  read_flag(value, "messages", made.messages);
  read_flag(value, "memory", made.memory);
  read_flag(value, "steps", made.steps);
  read_flag(value, "warnings", made.warnings);
  read_flag(value, "validation", made.validation);
  read_tensors(value, made);
  read_steps(value, made);
  return made;
}

}  // namespace troupe
