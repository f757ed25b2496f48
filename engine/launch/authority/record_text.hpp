#pragma once

#include <string>
#include <string_view>

#include "troupe/engine/membership/record_store.hpp"

namespace troupe {

/// An authority's record as JSON, for its stores.
std::string record_text(const membership::job_record& record);
/// Throws `malformed_text`, naming the field.
membership::job_record read_record(std::string_view text);

}  // namespace troupe
