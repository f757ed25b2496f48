#include "troupe/engine/launch/authority/record_text.hpp"

#include <algorithm>
#include <concepts>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/json.hpp"

namespace troupe {

namespace {

using nlohmann::json;

template <class T>
concept has_fields =
  std::is_class_v<T> && !std::same_as<T, std::string> && !requires(T & list) {
  list.emplace_back();
};

class record_output {
 public:
  static constexpr bool reads = false;

  template <class T>
  void operator()(const char* name, T& value) {
    object_[name] = json_of(value);
  }

  template <class T>
  static json json_of(T& value) {
    if constexpr (has_fields<T>) {
      record_output inner;
      fields(inner, value);
      return inner.object_;
    } else if constexpr (requires {
                           requires has_fields<typename T::value_type>;
                         }) {
      auto list = json::array();
      for (auto& each : value)
        list.push_back(json_of(each));
      return list;
    } else {
      return value;
    }
  }

 private:
  json object_ = json::object();
};

class record_input {
 public:
  static constexpr bool reads = true;
  explicit record_input(const json& object) : object_(object) {}

  template <class T>
  void operator()(const char* name, T& value) {
    const auto place = object_.find(name);
    if (place == object_.end())
      fail(error_code::malformed_text, "'{}' is missing", name);
    read(*place, name, value);
  }

  template <class T>
  static void read(const json& source, const char* name, T& value) {
    if constexpr (has_fields<T>) {
      if (!source.is_object())
        fail(error_code::malformed_text, "'{}' is not an object", name);
      record_input inner(source);
      fields(inner, value);
    } else if constexpr (requires {
                           requires has_fields<typename T::value_type>;
                         }) {
      if (!source.is_array())
        fail(error_code::malformed_text, "'{}' is not a list", name);
      for (const auto& each : source)
        read(each, name, value.emplace_back());
    } else {
      auto read_value = json_as<T>(source);
      if (!read_value)
        fail(error_code::malformed_text, "'{}' is not {}", name,
             json_kind<T>());
      value = std::move(*read_value);
    }
  }

 private:
  const json& object_;
};

/// Numbers of members, which must be some of these.
void require_members(const membership::epoch& of) {
  const auto is_member = [&](membership::member_id member) {
    return std::ranges::binary_search(of.members, member);
  };
  if (!std::ranges::is_sorted(of.members))
    fail(error_code::malformed_text, "'members' do not ascend");
  const bool hosts =
    of.number == 0 || std::ranges::all_of(of.hosting, is_member);
  if (!hosts)
    fail(error_code::malformed_text, "'hosting' has no member's number");
}

}  // namespace

std::string record_text(const membership::job_record& record) {
  auto copy = record;
  return json_text(record_output::json_of(copy), 1) + "\n";
}

membership::job_record read_record(std::string_view text) {
  const auto parsed = parsed_json(text, 8);
  if (parsed.is_discarded())
    fail(error_code::malformed_text, "the record is not JSON");
  membership::job_record record;
  record_input::read(parsed, "record", record);
  require_members(record.epoch);
  return record;
}

}  // namespace troupe
