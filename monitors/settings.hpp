#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/base/parse_number.hpp"

namespace troupe {

/// The settings in a spec of a monitor or a sink: `key=value,...`. A part
/// without `=` belongs to the value before it. Whatever is not asked for is
/// unknown. All members throw `invalid_argument` naming the owner.
class settings {
 public:
  /// `owner` for errors: "monitor gap".
  settings(std::string owner, const std::string& text);

  /// Leaves `target` as it is where the key is not given.
  void read(const char* key, std::string& target);
  void read(const char* key, std::optional<std::string>& target);
  void read(const char* key, bool& target);
  void read(const char* key, double& target);
  void read(const char* key, std::optional<std::int64_t>& target);
  void read(const char* key, std::vector<std::int64_t>& target);
  template <std::integral Integer>
  void read(const char* key, Integer& target) {
    if (const auto* text = find(key))
      target = number<Integer>(key, *text, "a whole number");
  }

  /// Reads the fields of a type (base/fields.hpp), and no others may be given.
  template <class Options>
  void read_all(Options& options) {
    fields(*this, options);
    require_all_read();
  }
  template <class T>
  void operator()(const char* key, T& target) {
    read(key, target);
  }

  /// Throws for the first setting that nobody has read.
  void require_all_read() const;

 private:
  const std::string* find(const char* key);
  const std::string& given(const char* key, const std::string& text) const;
  [[noreturn]] void refuse(const char* key, const std::string& text,
                           const char* wanted) const;

  template <class Number>
  Number number(const char* key, const std::string& text,
                const char* wanted) const {
    const auto value = parse_number<Number>(text);
    if (!value)
      refuse(key, text, wanted);
    return *value;
  }

  std::string owner_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
};

}  // namespace troupe
