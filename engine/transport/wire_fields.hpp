#pragma once

#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

// The binary form of types that have `fields` (base/fields.hpp), and of
// numbers, flags, enumerations, texts, vectors, optionals, arrays, pairs and
// variants of such: the fields in the order of their description, without their
// names.

class wire_output {
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
  std::string take() { return writer_.take(); }

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      writer_.put(value);
    else
      fields(*this, const_cast<T&>(value));  // fields only reads it
  }
  void put(const std::string& text) { writer_.put(std::string_view(text)); }
  template <class T>
  void put(const std::vector<T>& items) {
    writer_.put_all(items, [this](const T& item) { put(item); });
  }
  template <class T>
  void put(const std::optional<T>& value) {
    writer_.put(value.has_value());
    if (value)
      put(*value);
  }
  template <class T, std::size_t N>
  void put(const std::array<T, N>& items) {
    for (const auto& item : items)
      put(item);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& both) {
    put(both.first);
    put(both.second);
  }
  /// Writes the index of the alternative, and its value.
  template <class... Kinds>
  void put(const std::variant<Kinds...>& one) {
    put(static_cast<std::uint8_t>(one.index()));
    std::visit([this](const auto& held) { put(held); }, one);
  }

 private:
  wire_writer writer_;
};

/// Reads what a `wire_output` wrote; throws `transport` as `wire_reader` does,
/// naming the field.
class wire_input {
 public:
  static constexpr bool reads = true;
  explicit wire_input(std::string_view bytes) : reader_(bytes) {}

  template <class T>
  void operator()(const char* name, T& value) {
    reader_.at(name);
    get(value);
  }
  template <class T>
  void within_job(const char* name, T& value) {
    operator()(name, value);
  }
  template <class T>
  void for_clients(const char*, T&) {}
  void require(bool is_valid, const char* name) {
    reader_.at(name);
    if (!is_valid)
      reader_.refuse_field("an invalid value");
  }
  void finish() const { reader_.finish(); }

  template <class T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>)
      value = reader_.get_flag();
    else if constexpr (std::is_enum_v<T>)
      value = reader_.get_up_to(largest_value<T>);
    else if constexpr (std::is_arithmetic_v<T>)
      value = reader_.get<T>();
    else
      fields(*this, value);
  }
  void get(std::string& text) { text = reader_.get_text(); }
  template <class T>
  void get(std::vector<T>& items) {
    items.clear();
    for (auto left = reader_.get_count(1); left > 0; --left)
      get(items.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& value) {
    value.reset();
    if (reader_.get_flag())
      get(value.emplace());
  }
  template <class T, std::size_t N>
  void get(std::array<T, N>& items) {
    for (auto& item : items)
      get(item);
  }
  template <class A, class B>
  void get(std::pair<A, B>& both) {
    get(both.first);
    get(both.second);
  }
  template <class... Kinds>
  void get(std::variant<Kinds...>& one) {
    const std::size_t kind = reader_.get<std::uint8_t>();
    if (kind >= sizeof...(Kinds))
      reader_.refuse_field("an unknown kind");
    get_kind(one, kind, std::index_sequence_for<Kinds...>{});
  }

 private:
  template <class Variant, std::size_t... Indices>
  void get_kind(Variant& one, std::size_t kind,
                std::index_sequence<Indices...>) {
    ((kind == Indices ? get(one.template emplace<Indices>()) : void()), ...);
  }

  wire_reader reader_;
};

template <class Message>
std::string to_wire(const Message& message) {
  wire_output out;
  out.put(message);
  return out.take();
}

/// Throws `transport` unless the bytes are exactly one such message.
template <class Message>
Message from_wire(std::string_view bytes) {
  wire_input in(bytes);
  Message message{};
  in.get(message);
  in.finish();
  return message;
}

}  // namespace troupe
