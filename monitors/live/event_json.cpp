#include "troupe/monitors/live/event_json.hpp"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <type_traits>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

using nlohmann::json;

namespace {

[[noreturn]] void refuse_kind(const char* name) {
  fail(error_code::malformed_text, "'{}' is of an unknown kind", name);
}

phase phase_of(const std::string& name) {
  for (const auto each : {phase::training, phase::validation, phase::inference})
    if (name == to_text(each))
      return each;
  refuse_kind("phase");
}

at::ScalarType dtype_of(const std::string& name) {
  constexpr auto kinds =
    static_cast<int>(at::ScalarType::NumOptions) + 1;  // and Undefined
  for (int i = 0; i < kinds; ++i)
    if (name == c10::toString(static_cast<at::ScalarType>(i)))
      return static_cast<at::ScalarType>(i);
  refuse_kind("dtype");
}

std::string name_of(tensor_kind kind) {
  std::string name = to_text(kind);
  std::ranges::replace(name, ' ', '_');
  return name;
}

template <class Work>
void for_each_kind(tensor_kind set, const Work& work) {
  for (unsigned bit = 1;
       bit <= static_cast<unsigned>(largest_value<tensor_kind>); bit *= 2)
    if (has(set, static_cast<tensor_kind>(bit)))
      work(static_cast<tensor_kind>(bit));
}

std::string names_of(tensor_kind set) {
  std::string names;
  for_each_kind(set, [&](tensor_kind kind) {
    names += (names.empty() ? "" : ",") + name_of(kind);
  });
  return names;
}

tensor_kind kind_of(const std::string& wanted) {
  auto named = tensor_kind::none;
  for_each_kind(largest_value<tensor_kind>, [&](tensor_kind kind) {
    if (name_of(kind) == wanted)
      named = kind;
  });
  if (named == tensor_kind::none)
    fail(error_code::invalid_argument,
         "unknown kind of tensors '{}'; known kinds are {}, and all",
         printable(wanted), names_of(largest_value<tensor_kind>));
  return named;
}

/// Most bins are empty: pairs of bin and count.
json bins_of(const log2_histogram& histogram) {
  auto list = json::array();
  for (std::size_t i = 0; i < histogram.size(); ++i)
    if (histogram[i] != 0)
      list.push_back({i, histogram[i]});
  return list;
}

log2_histogram histogram_of(const json& list) {
  log2_histogram histogram{};
  if (!list.is_array())
    fail(error_code::malformed_text, "'histogram' is not a list");
  for (const auto& each : list) {
    if (!each.is_array() || each.size() != 2)
      fail(error_code::malformed_text, "'histogram' is not a list of bins");
    const auto bin = value_of<std::size_t>(each[0], "histogram");
    if (bin >= histogram.size())
      fail(error_code::malformed_text, "'histogram' has no bin {}", bin);
    histogram[bin] = value_of<std::int64_t>(each[1], "histogram");
  }
  return histogram;
}

template <class T>
json to_json(const T& value);

/// Writes fields into an object, or a row.
class json_output {
 public:
  static constexpr bool reads = false;
  explicit json_output(json& target) : target_(target) {}

  template <class T>
  void within_job(const char*, const T&) {}
  template <class T>
  void for_clients(const char* name, const T& value) {
    operator()(name, value);
  }

  void operator()(const char* name, const shared_histogram& value) {
    if (value)
      target_[name] = bins_of(*value);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value)
      operator()(name, *value);
  }
  template <class T>
  void operator()(const char* name, const T& value) {
    if (target_.is_array())
      target_.push_back(to_json(value));
    else
      target_[name] = to_json(value);
  }

 private:
  json& target_;
};

template <class T>
json to_json(const T& value) {
  if constexpr (std::is_same_v<T, phase>)
    return to_text(value);
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    return c10::toString(value);
  else if constexpr (std::is_same_v<T, tensor_kinds>)
    return names_of(value.set);
  else if constexpr (std::is_enum_v<T>)
    return static_cast<std::uint8_t>(value);
  else if constexpr (std::is_floating_point_v<T>)
    return json_number(value);
  else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    return value;
  else if constexpr (requires(T & list) { list.push_back({}); }) {
    auto list = json::array();
    for (const auto& each : value)
      list.push_back(to_json(each));
    return list;
  } else {
    auto document = travels_as_row<T> ? json::array() : json::object();
    json_output other(document);
    fields(other, const_cast<T&>(value));  // fields only reads it
    return document;
  }
}

template <class T>
void read_json(const json& value, const char* name, T& target);

/// Reads fields of an object, or of a row; throws `malformed_text` naming the
/// field. `of_client`: a field that is left out leaves its member as it is, and
/// one that is unknown is refused.
class json_input {
 public:
  static constexpr bool reads = true;
  json_input(const json& value, bool of_client)
    : source_(value), of_client_(of_client) {}

  template <class T>
  void within_job(const char*, T&) {}
  template <class T>
  void for_clients(const char* name, T& value) {
    operator()(name, value);
  }

  void operator()(const char* name, shared_histogram& value) {
    value =
      source_.contains(name) ? histogram_of(source_[name]) : shared_histogram{};
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) {
    value.reset();
    if (source_.contains(name))
      operator()(name, value.emplace());
  }
  template <class T>
  void operator()(const char* name, T& value) {
    if (of_client_)
      names_.push_back(name);
    if (!of_client_ || source_.contains(name))
      read_json(next(name), name, value);
  }
  void require(bool is_valid, const char* name) const {
    if (!is_valid)
      refuse_kind(name);
  }
  /// A row is as long as its fields.
  void finish(const char* name) const {
    if (of_client_)
      require_known(source_, fmt::format("'{}'", name), names_);
    if (source_.is_array() && source_.size() != used_)
      fail(error_code::malformed_text, "'{}' has rows of {} values, not {}",
           name, source_.size(), used_);
  }

 private:
  const json& next(const char* name) {
    if (!source_.is_array())
      return field_of(source_, name);
    if (used_ == source_.size())
      fail(error_code::malformed_text, "'{}' is missing in a row", name);
    return source_[used_++];
  }

  const json& source_;
  bool of_client_;
  std::size_t used_ = 0;
  std::vector<std::string_view> names_;
};

template <class T>
void read_json(const json& source, const char* name, T& target) {
  if constexpr (std::is_same_v<T, phase>)
    target = phase_of(value_of<std::string>(source, name));
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    target = dtype_of(value_of<std::string>(source, name));
  else if constexpr (std::is_same_v<T, tensor_kinds>)
    target.set = tensor_kinds_of(value_of<std::string>(source, name));
  else if constexpr (std::is_enum_v<T>) {
    const auto value = value_of<std::uint8_t>(source, name);
    if (value > static_cast<std::uint8_t>(largest_value<T>))
      refuse_kind(name);
    target = static_cast<T>(value);
  } else if constexpr (std::is_arithmetic_v<
                         T> || std::is_same_v<T, std::string>)
    target = value_of<T>(source, name);
  else if constexpr (requires { target.emplace_back(); }) {
    if (!source.is_array())
      fail(error_code::malformed_text, "'{}' is not a list", name);
    for (const auto& each : source)
      read_json(each, name, target.emplace_back());
  } else {
    if (source.is_array() != travels_as_row<T> || !source.is_structured())
      fail(error_code::malformed_text, "'{}' is not {}", name,
           travels_as_row<T> ? "a list of rows" : "an object");
    json_input other(source, std::is_same_v<T, subscription>);
    fields(other, target);
    other.finish(name);
  }
}

template <class T>
T read(const json& value, const char* name) {
  T result;
  read_json(value, name, result);
  return result;
}

template <class... Kinds>
bool read_kind(std::variant<Kinds...>& target, const std::string& name,
               const json& value) {
  return (
    (name == Kinds::kind
     && (read_json(value, Kinds::kind, target.template emplace<Kinds>()), true))
    || ...);
}

}  // namespace

json json_of(const event& what) {
  return std::visit(
    [](const auto& held) {
      auto document = to_json(held);
      document["event"] = held.kind;
      return document;
    },
    what);
}

event event_of(const json& value) {
  event result;
  if (!read_kind(result, field<std::string>(value, "event"), value))
    refuse_kind("event");
  return result;
}

json json_of(const alert& what) {
  return to_json(what);
}
alert alert_of(const json& value) {
  return read<alert>(value, "alert");
}

json json_of(const metrics_record& record) {
  return to_json(record);
}
metrics_record metrics_of(const json& value) {
  return read<metrics_record>(value, "metrics");
}

json json_of(const subscription& wants) {
  return to_json(wants);
}
subscription subscription_of(const json& value) {
  const auto result = read<subscription>(value, "subscription");
  if (result.every < 1 || result.first < 0)
    fail(error_code::invalid_argument,
         "a subscription's 'every' is at least 1, and its 'first' at least 0");
  if (result.names.size() > 1024)
    fail(error_code::invalid_argument,
         "a subscription's 'names' have at most 1024 bytes");
  return result;
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

}  // namespace troupe
