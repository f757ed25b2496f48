#include "troupe/monitors/live/json_archive.hpp"

namespace troupe {

using nlohmann::json;

phase phase_of(const std::string& name) {
  for (const auto each : {phase::training, phase::validation, phase::inference})
    if (name == phase_name(each))
      return each;
  fail(error_code::malformed_text, "a phase of an unknown kind");
}

at::ScalarType dtype_of(const std::string& name) {
  constexpr auto kinds =
    static_cast<int>(at::ScalarType::NumOptions) + 1;  // and Undefined
  for (int i = 0; i < kinds; ++i)
    if (name == c10::toString(static_cast<at::ScalarType>(i)))
      return static_cast<at::ScalarType>(i);
  fail(error_code::malformed_text, "'dtype' is of an unknown kind");
}

json bins_of(const log2_histogram& histogram) {
  auto list = json::array();
  for (std::size_t i = 0; i < histogram.size(); ++i)
    if (histogram[i] != 0)
      list.push_back({i, histogram[i]});
  return list;
}

log2_histogram histogram_of(const json& list) {
  log2_histogram made{};
  for (const auto& each : list) {
    if (!each.is_array() || each.size() != 2)
      fail(error_code::malformed_text, "'histogram' is not a list of bins");
    const auto bin = whole_of<std::size_t>(each[0], "histogram");
    if (bin >= made.size())
      fail(error_code::malformed_text, "'histogram' has no bin {}", bin);
    made[bin] = whole_of<std::int64_t>(each[1], "histogram");
  }
  return made;
}

}  // namespace troupe
