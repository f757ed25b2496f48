#pragma once

#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// So many random hexadecimal digits, in eights.
std::string random_digits(int eights);

/// This machine's; "localhost" where it has none.
std::string host_name();

/// The index of a name in a list. Throws `invalid_argument`: "unknown
/// order 'x': known orders are ...", where `what` is "order".
std::size_t place_of_name(std::string_view name,
                          std::span<const std::string_view> names,
                          std::string_view what);

/// The value of an enumeration whose names are in the order of its values.
template <class Enum>
Enum parse_named(std::string_view name, std::span<const std::string_view> names,
                 std::string_view what) {
  return static_cast<Enum>(place_of_name(name, names, what));
}

}  // namespace troupe
