#pragma once

#include <nlohmann/json.hpp>

#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

// Messages of a live job's endpoint, as JSON and back. Numbers keep every
// bit, but for a NaN's. Of tensors the statistics travel, never the values.
// Reading throws `malformed_text` naming the field.

/// {"event": "step" | "ops" | "messages" | "memory" | "tensors" | "slow_load" |
/// "failure" | "dropped", "source": {...}, ...}
nlohmann::json json_of(const event& what);
event event_of(const nlohmann::json& value);

nlohmann::json json_of(const tensor_record& record);
tensor_record record_of(const nlohmann::json& value);

nlohmann::json json_of(const alert& what);
alert alert_of(const nlohmann::json& value);
nlohmann::json json_of(const metrics_record& record);
metrics_record metrics_of(const nlohmann::json& value);

}  // namespace troupe
