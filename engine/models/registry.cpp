#include "troupe/engine/models/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

const model_entry& find_model(const std::string& name) {
  const auto& all = registered_models();
  const auto found = std::ranges::find(all, name, &model_entry::name);
  if (found != all.end())
    return *found;
  std::vector<std::string> names;
  for (const auto& entry : all)
    names.push_back(entry.name);
  const auto similar = did_you_mean(name, names);
  fail(
    error_code::invalid_argument, "there is no model '{}'{}", printable(name),
    similar.empty() ? fmt::format("; the models are {}", fmt::join(names, ", "))
                    : similar);
}

std::int64_t whole(const option_values& values, const std::string& name) {
  return std::get<std::int64_t>(values.at(name));
}

}  // namespace troupe
