#pragma once

#include <nlohmann/json.hpp>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// Kinds of tensors by their names, joined by commas: `activation`, `input`,
/// `weight`, `activation_gradient`, `parameter`, `gradient`, `loss`.
std::string names_of(tensor_kind set);
/// Of such names, `all`, or nothing. Throws `invalid_argument` with those that
/// there are.
tensor_kind tensor_kinds_of(const std::string& names);

/// An object of fields, of which all may be left out.
nlohmann::json json_of(const subscription& wants);
/// Throws `malformed_text`, and `invalid_argument` for what no subscription
/// may be: `every` below 1, `first` below 0, globs of more than 1024 bytes.
subscription subscription_of(const nlohmann::json& value);

}  // namespace troupe
