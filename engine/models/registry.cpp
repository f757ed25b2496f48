#include "troupe/engine/models/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

const model_entry& find_model(const std::string& name) {
  const auto& all = registered_models();
  const auto found = std::ranges::find(all, name, &model_entry::name);
  if (found != all.end())
    return *found;
  fail(error_code::invalid_argument,
       "there is no model '{}'; the models are {}", printable(name),
       fmt::join(all | std::views::transform(&model_entry::name), ", "));
}

std::int64_t whole(const option_values& values, const std::string& name) {
  return std::get<std::int64_t>(values.at(name));
}

}  // namespace troupe
