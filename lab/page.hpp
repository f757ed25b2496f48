#pragma once

#include <string_view>

namespace troupe::lab {

/// The page, made at build time of the files in `page/`: HTML with its style
/// and script inside. `@nonce@` stands where a response's nonce belongs.
std::string_view page();

}  // namespace troupe::lab
