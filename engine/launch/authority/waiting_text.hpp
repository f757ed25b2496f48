#pragma once

#include <functional>
#include <string>

#include "troupe/engine/launch/authority/process_table.hpp"
#include "troupe/engine/membership/authority.hpp"

namespace troupe {

/// What an authority waits for, in words: processes that have not come for the
/// first epoch, or members of the last one of which it does not know whether
/// they still run. Empty: it does not wait.
std::string waiting_text(
  const membership::authority& decides, const process_table& table,
  const std::function<bool(membership::member_id)>& is_connected);

}  // namespace troupe
