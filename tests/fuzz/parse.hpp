#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "troupe/base/error.hpp"

namespace troupe::testing {

/// The return value of a fuzzer's entry. An `error` refuses the bytes; any
/// other exception ends the fuzzer.
template <class Parse>
int parse(const std::uint8_t* data, std::size_t size, Parse&& with) {
  try {
    with(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const error&) {
  }
  return 0;
}

/// Takes the first byte off the text: which of several parsers gets the rest.
inline unsigned take_choice(std::string_view& text) {
  if (text.empty())
    return 0;
  const auto choice = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  return choice;
}

/// Values that were written and read again must be equal.
inline void require(bool holds) {
  if (!holds)
    throw std::logic_error("what was read is none of what may be read");
}

}  // namespace troupe::testing
