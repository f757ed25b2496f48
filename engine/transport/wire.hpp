#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "troupe/base/error.hpp"

namespace troupe {

/// Appends numbers and texts to bytes: little endian, without padding.
class wire_writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    static_assert(std::endian::native == std::endian::little);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  /// Writes a count, and each item by `put_one`.
  template <class Items, class PutOne>
  void put_all(const Items& items, PutOne&& put_one) {
    put(static_cast<std::uint32_t>(std::size(items)));
    for (const auto& item : items)
      put_one(item);
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a `wire_writer` wrote. Every read is checked against the bytes
/// left: throws `transport` if they end too early or can't hold a count, naming
/// the field if it was told.
class wire_reader {
 public:
  explicit wire_reader(std::string_view bytes) : bytes_(bytes) {}

  /// The field that is read next, for errors.
  void at(const char* field) { field_ = field; }

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// Reads an enumeration's value that is at most `largest`.
  template <class T>
  requires std::is_enum_v<T> T get_up_to(T largest) {
    const auto value = get<std::underlying_type_t<T>>();
    if (value < 0 || value > static_cast<std::underlying_type_t<T>>(largest))
      refuse_field("an invalid value");
    return static_cast<T>(value);
  }
  bool get_flag() {
    const auto value = get<std::uint8_t>();
    if (value > 1)
      refuse_field("a flag that is neither 0 nor 1");
    return value == 1;
  }
  std::string get_text() {
    const auto size = get<std::uint32_t>();
    return std::string(take(size));
  }
  /// Reads the number of items that follow, of at least so many bytes each.
  std::size_t get_count(std::size_t bytes_each) {
    const std::size_t count = get<std::uint32_t>();
    if (count > bytes_.size() / bytes_each)
      refuse_field("more items than bytes");
    return count;
  }
  template <class GetOne>
  auto get_all(std::size_t bytes_each, GetOne&& get_one) {
    std::vector<std::invoke_result_t<GetOne>> all(get_count(bytes_each));
    for (auto& item : all)
      item = get_one();
    return all;
  }

  std::size_t left() const { return bytes_.size(); }
  /// Throws if bytes are left.
  void finish() const {
    if (!bytes_.empty())
      refuse("bytes beyond its end");
  }
  [[noreturn]] static void refuse(const char* what) {
    fail(error_code::transport, "a message has {}", what);
  }
  [[noreturn]] void refuse_field(const char* what) const {
    if (field_ == nullptr)
      refuse(what);
    fail(error_code::transport, "a message has {} at its field '{}'", what,
         field_);
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size())
      refuse_field("fewer bytes than it announces");
    const auto taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  const char* field_ = nullptr;
};

}  // namespace troupe
