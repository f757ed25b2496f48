#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/transport/wire.hpp"

namespace troupe::testing {

/// A message's fields in binary form, in the order of its description; nested
/// fields are expanded.
class field_bytes {
 public:
  static constexpr bool reads = false;

  template <class T>
  void operator()(const char* name, const T& value) {
    auto& same = const_cast<T&>(value);  // fields only reads it
    if constexpr (requires { fields(*this, same); })
      fields(*this, same);
    else
      all.emplace_back(name, to_wire(value));
  }
  template <class T>
  void within_job(const char* name, const T& value) {
    operator()(name, value);
  }
  template <class T>
  void for_clients(const char*, const T&) {}

  std::string joined() const {
    std::string bytes;
    for (const auto& [name, each] : all)
      bytes += each;
    return bytes;
  }

  std::vector<std::pair<std::string, std::string>> all;
};

template <class Message>
field_bytes fields_in(const Message& message) {
  field_bytes result;
  result("message", message);
  return result;
}

/// With one or two fields exchanged, doubled, removed or truncated.
inline field_bytes disturbed(field_bytes fields, std::mt19937_64& random) {
  auto& all = fields.all;
  const auto any = [&] { return random() % all.size(); };
  for (auto changes = 1 + random() % 2; changes > 0; --changes) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(any());
    const auto kind = random() % 4;
    if (kind == 0)
      std::swap(*at, all[any()]);
    else if (kind == 1)
      all.insert(at, std::pair(*at));
    else if (kind == 2 && all.size() > 1)
      all.erase(at);
    else
      at->second.resize(random() % (at->second.size() + 1));
  }
  return fields;
}

}  // namespace troupe::testing
