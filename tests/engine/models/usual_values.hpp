#pragma once

#include "troupe/engine/models/registry.hpp"

namespace troupe::testing {

/// The default values of all options of a model.
inline option_values usual_values(const model_entry& entry) {
  option_values values;
  for (const auto& option : entry.options)
    values.emplace(option.name, option.usual);
  return values;
}

}  // namespace troupe::testing
