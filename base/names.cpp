#include "troupe/base/names.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <random>

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

}  // namespace troupe
