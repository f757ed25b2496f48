#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::cli {

/// What a live job answers to `GET /ranks`, for a person: a line for each
/// process, with the ranks that it hosts. Throws `malformed_text` for what is
/// no such answer.
std::string ranks_table(const nlohmann::json& answer);

/// The ids of a job's processes; empty for a job that does not heal.
std::vector<std::int64_t> process_ids(const nlohmann::json& answer);

}  // namespace troupe::cli
