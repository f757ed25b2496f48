#pragma once

#include <string>

namespace troupe {

/// So many random hexadecimal digits, in eights.
std::string random_digits(int eights);

/// This machine's; "localhost" where it has none.
std::string host_name();

}  // namespace troupe
