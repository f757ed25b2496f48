#pragma once

#include <algorithm>
#include <random>
#include <string>

namespace troupe::testing {

/// Mutates bytes like libFuzzer, equally for equal seeds.
class mutator {
 public:
  explicit mutator(unsigned seed) : random_(seed) {}

  /// A mutation of `one`, at times with a part of `other`.
  std::string mutate(std::string one, const std::string& other) {
    for (auto times = 1 + below(4); times > 0; --times)
      change(one, other);
    return one;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  char any_byte() { return static_cast<char>(random_()); }

  void change(std::string& bytes, const std::string& other) {
    constexpr std::size_t longest = 1 << 16;
    const auto at = below(bytes.size() + 1);
    const auto length = 1 + below(16);
    const auto kind = below(7);
    if (kind == 0 && at < bytes.size())
      bytes[at] = any_byte();
    else if (kind == 1 && at < bytes.size())
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    else if (kind == 2)
      bytes.erase(at, length);
    else if (kind == 3)
      bytes.insert(at, std::string(length, any_byte()));
    else if (kind == 4)
      overwrite(bytes, at);
    else if (kind == 5 && bytes.size() < longest)
      bytes.insert(at, bytes.substr(below(bytes.size() + 1), 64));
    else if (kind == 6 && bytes.size() < longest)
      bytes = bytes.substr(0, at) + other.substr(below(other.size() + 1));
  }

  /// Overwrites bytes by a large or small number of some width.
  void overwrite(std::string& bytes, std::size_t at) {
    const auto value = below(2) == 0 ? ~std::uint64_t{0} >> below(64)
                                     : std::uint64_t{1} << below(64);
    const auto width = std::min<std::size_t>(
      std::size_t{1} << below(4), bytes.size() - std::min(at, bytes.size()));
    for (std::size_t i = 0; i < width; ++i)
      bytes[at + i] = static_cast<char>(value >> (8 * i));
  }

  std::mt19937 random_;
};

}  // namespace troupe::testing
