#include <c10/core/ScalarType.h>

#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

using nlohmann::json;

constexpr auto scalar_types =
  static_cast<int>(at::ScalarType::NumOptions) + 1;  // and Undefined

at::ScalarType dtype_of(const std::string& name) {
  for (int i = 0; i < scalar_types; ++i)
    if (name == c10::toString(static_cast<at::ScalarType>(i)))
      return static_cast<at::ScalarType>(i);
  fail(error_code::malformed_text, "'dtype' is of an unknown kind");
}

template <class Enum>
Enum enum_of(const json& object, const char* name, Enum last) {
  const auto value = whole_of<std::uint8_t>(field_of(object, name), name);
  if (value > static_cast<std::uint8_t>(last))
    fail(error_code::malformed_text, "'{}' is of an unknown kind", name);
  return static_cast<Enum>(value);
}

/// Most bins are empty: pairs of bin and count.
json bins_of(const log2_histogram& histogram) {
  auto list = json::array();
  for (std::size_t i = 0; i < histogram.size(); ++i)
    if (histogram[i] != 0)
      list.push_back({i, histogram[i]});
  return list;
}

log2_histogram histogram_of(const json& object) {
  log2_histogram made{};
  for (const auto& each : list_of(object, "histogram")) {
    if (!each.is_array() || each.size() != 2)
      fail(error_code::malformed_text, "'histogram' is no list of bins");
    const auto bin = whole_of<std::size_t>(each[0], "histogram");
    if (bin >= made.size())
      fail(error_code::malformed_text, "'histogram' has no bin {}", bin);
    made[bin] = whole_of<std::int64_t>(each[1], "histogram");
  }
  return made;
}

}  // namespace

json json_of(const tensor_statistics& s) {
  json made = {{"count", s.count},
               {"nans", s.nans},
               {"infs", s.infs},
               {"zeros", s.zeros},
               {"fp16_overflows", s.fp16_overflows},
               {"fp16_underflows", s.fp16_underflows},
               {"bf16_overflows", s.bf16_overflows},
               {"bf16_underflows", s.bf16_underflows},
               {"max_abs", json_number(s.max_abs)},
               {"min_abs", json_number(s.min_abs)},
               {"mean", json_number(s.mean)},
               {"squares", json_number(s.squares)},
               {"instances", s.instances},
               {"instance_mean_sum", json_number(s.instance_mean_sum)},
               {"instance_variance_sum", json_number(s.instance_variance_sum)}};
  if (s.histogram)
    made["histogram"] = bins_of(*s.histogram);
  return made;
}

tensor_statistics statistics_of(const json& value) {
  tensor_statistics made;
  read_whole(value, "count", made.count);
  read_whole(value, "nans", made.nans);
  read_whole(value, "infs", made.infs);
  read_whole(value, "zeros", made.zeros);
  read_whole(value, "fp16_overflows", made.fp16_overflows);
  read_whole(value, "fp16_underflows", made.fp16_underflows);
  read_whole(value, "bf16_overflows", made.bf16_overflows);
  read_whole(value, "bf16_underflows", made.bf16_underflows);
  made.max_abs = number_of(value, "max_abs");
  made.min_abs = number_of(value, "min_abs");
  made.mean = number_of(value, "mean");
  made.squares = number_of(value, "squares");
  read_whole(value, "instances", made.instances);
  made.instance_mean_sum = number_of(value, "instance_mean_sum");
  made.instance_variance_sum = number_of(value, "instance_variance_sum");
  if (value.contains("histogram"))
    made.histogram = histogram_of(value);
  return made;
}

json json_of(const tensor_record& record) {
  return {{"kind", static_cast<std::uint8_t>(record.kind)},
          {"content", static_cast<std::uint8_t>(record.content)},
          {"name", record.owner ? record.owner->name : ""},
          {"class", record.owner ? record.owner->class_name : ""},
          {"index", record.index},
          {"inner", record.inner},
          {"part", record.part},
          {"call", record.call},
          {"dimensions", record.dimensions},
          {"dtype", c10::toString(record.dtype)},
          {"statistics", json_of(record.statistics)}};
}

tensor_record record_of(const json& value) {
  tensor_record made;
  made.kind = enum_of(value, "kind", tensor_kind::loss);
  made.content = enum_of(value, "content", tensor_content::other);
  made.owner = std::make_shared<const tensor_owner>(
    tensor_owner{text_of(value, "name"), text_of(value, "class")});
  read_whole(value, "index", made.index);
  read_whole(value, "inner", made.inner);
  made.part = text_of(value, "part");
  read_whole(value, "call", made.call);
  read_whole(value, "dimensions", made.dimensions);
  made.dtype = dtype_of(text_of(value, "dtype"));
  made.statistics = statistics_of(field_of(value, "statistics"));
  return made;
}

}  // namespace troupe
