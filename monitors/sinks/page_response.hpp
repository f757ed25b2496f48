#pragma once

#include <string_view>

#include "troupe/monitors/sinks/http_server.hpp"

namespace troupe {

/// A page whose style and script are inside, with a nonce in place of each
/// `@nonce@`: a browser runs nothing else, and asks this server alone.
http_response page_response(std::string_view page);

}  // namespace troupe
