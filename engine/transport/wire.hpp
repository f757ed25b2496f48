#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/fields.hpp"

namespace troupe {

// The binary form of types that have `fields` (base/fields.hpp), and of
// numbers, flags, enumerations, texts, and vectors, optionals, arrays, pairs
// and variants of these: little endian, without padding; the fields in the
// order of their description, without their names.

class wire_writer {
 public:
  static constexpr bool reads = false;
  template <class T>
  void operator()(const char*, const T& value) {
    put(value);
  }
  template <class T>
  void within_job(const char*, const T& value) {
    put(value);
  }
  template <class T>
  void for_clients(const char*, const T&) {}

  template <class T>
  void put(const T& value) {
    static_assert(std::endian::native == std::endian::little);
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    else
      fields(*this, const_cast<T&>(value));  // fields only reads it
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  template <class T>
  void put(const std::vector<T>& items) {
    put(static_cast<std::uint32_t>(items.size()));
    for (const T& item : items)
      put(item);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value)
      put(*value);
  }
  template <class T, std::size_t N>
  void put(const std::array<T, N>& items) {
    for (const auto& item : items)
      put(item);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  /// Writes the index of the alternative, and its value.
  template <class... Kinds>
  void put(const std::variant<Kinds...>& value) {
    put(static_cast<std::uint8_t>(value.index()));
    std::visit([this](const auto& alternative) { put(alternative); }, value);
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a `wire_writer` wrote. Every read is checked against the bytes
/// left: throws `transport` if they end too early or can't hold a count, naming
/// the field if there is one.
class wire_reader {
 public:
  static constexpr bool reads = true;
  explicit wire_reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void operator()(const char* name, T& value) {
    field_ = name;
    get(value);
  }
  template <class T>
  void within_job(const char* name, T& value) {
    operator()(name, value);
  }
  template <class T>
  void for_clients(const char*, T&) {}
  void require(bool is_valid, const char* name) {
    field_ = name;
    if (!is_valid)
      refuse_field("an invalid value");
  }

  template <class T>
  T get() {
    T value{};
    get(value);
    return value;
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto flag = get<std::uint8_t>();
      if (flag > 1)
        refuse_field("a flag that is neither 0 nor 1");
      value = flag == 1;
    } else if constexpr (std::is_enum_v<T>) {
      using number = std::underlying_type_t<T>;
      const auto code = get<number>();
      if (code < 0 || code > static_cast<number>(largest_value<T>))
        refuse_field("an invalid value");
      value = static_cast<T>(code);
    } else if constexpr (std::is_arithmetic_v<T>) {
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) {
    const auto size = get<std::uint32_t>();
    text = take(size);
  }
  template <class T>
  void get(std::vector<T>& items) {
    items.clear();
    for (auto left = get_count(1); left > 0; --left)
      get(items.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& value) {
    value.reset();
    if (get<bool>())
      get(value.emplace());
  }
  template <class T, std::size_t N>
  void get(std::array<T, N>& items) {
    for (auto& item : items)
      get(item);
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  template <class... Kinds>
  void get(std::variant<Kinds...>& value) {
    const std::size_t kind = get<std::uint8_t>();
    if (kind >= sizeof...(Kinds))
      refuse_field("an unknown kind");
    get_kind(value, kind, std::index_sequence_for<Kinds...>{});
  }
  /// Reads the number of items that follow, of at least so many bytes each.
  std::size_t get_count(std::size_t bytes_each) {
    const std::size_t count = get<std::uint32_t>();
    if (count > bytes_.size() / bytes_each)
      refuse_field("more items than bytes");
    return count;
  }

  std::size_t left() const { return bytes_.size(); }
  /// Throws if bytes are left.
  void finish() const {
    if (!bytes_.empty())
      refuse("bytes beyond its end");
  }
  [[noreturn]] static void refuse(const char* problem) {
    fail(error_code::transport, "a message has {}", problem);
  }

 private:
  template <class Variant, std::size_t... Indices>
  void get_kind(Variant& value, std::size_t kind,
                std::index_sequence<Indices...>) {
    ((kind == Indices ? get(value.template emplace<Indices>()) : void()), ...);
  }
  [[noreturn]] void refuse_field(const char* problem) const {
    if (field_ == nullptr)
      refuse(problem);
    fail(error_code::transport, "a message has {} at its field '{}'", problem,
         field_);
  }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size())
      refuse_field("fewer bytes than it announces");
    const auto next = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return next;
  }

  std::string_view bytes_;
  const char* field_ = nullptr;
};

template <class Message>
std::string to_wire(const Message& message) {
  wire_writer out;
  out.put(message);
  return out.take();
}

/// Throws `transport` unless the bytes are exactly one such message.
template <class Message>
Message from_wire(std::string_view bytes) {
  wire_reader in(bytes);
  auto message = in.get<Message>();
  in.finish();
  return message;
}

}  // namespace troupe
