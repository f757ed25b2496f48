#include "troupe/base/names.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

std::string random_digits(int eights) {
  std::random_device random;
  std::string digits;
  for (int i = 0; i < eights; ++i)
    digits += fmt::format("{:08x}", random());
  return digits;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name[0] == 0 ? "localhost" : name.data();
}

std::size_t place_of_name(std::string_view name,
                          std::span<const std::string_view> names,
                          std::string_view what) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    fail(error_code::invalid_argument, "unknown {} '{}': known {}s are {}",
         what, printable(name), what, fmt::join(names, ", "));
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace troupe
