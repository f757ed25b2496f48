#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

// Messages of a live job's endpoint, as JSON and back: the form of types that
// have `fields` (base/fields.hpp), without those within the job. Numbers keep
// every bit, but for a NaN's. Of tensors the statistics travel, never the
// values. Enumerations are numbers, but for those with names. Reading throws
// `malformed_text` naming the field.

/// {"event": "step" | "ops" | "messages" | "memory" | "tensors" | "slow_load" |
/// "failure" | "dropped" | "epoch", "source": {...}, ...}
nlohmann::json json_of(const event& what);
event event_of(const nlohmann::json& value);

nlohmann::json json_of(const alert& what);
alert alert_of(const nlohmann::json& value);
nlohmann::json json_of(const metrics_record& record);
metrics_record metrics_of(const nlohmann::json& value);

/// An object of fields, of which all may be left out.
nlohmann::json json_of(const subscription& wants);
/// Throws `malformed_text`, and `invalid_argument` for what no subscription
/// may be: `every` below 1, `first` below 0, globs of more than 1024 bytes.
subscription subscription_of(const nlohmann::json& value);

/// Reads kinds' names, joined by commas (`activation`, `input`, `weight`,
/// `activation_gradient`, `parameter`, `gradient`, `loss`), `all`, or nothing.
/// Throws `invalid_argument` with those that there are.
tensor_kind tensor_kinds_of(const std::string& names);

}  // namespace troupe
