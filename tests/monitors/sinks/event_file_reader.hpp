#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::testing {

/// The checksum of TensorBoard's reader, written anew: bit by bit, without
/// tables.
inline std::uint32_t plain_masked_crc(std::string_view bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const auto byte : bytes) {
    rest ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit)
      rest = rest & 1 ? rest >> 1 ^ 0x82f63b78 : rest >> 1;
  }
  rest = ~rest;
  return (rest >> 15 | rest << 17) + 0xa282ead8;
}

template <class Number>
Number take(std::string_view& from) {
  Number number;
  if (from.size() < sizeof number)
    throw std::runtime_error("cut short");
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return number;
}

inline std::string_view take(std::string_view& from, std::size_t size) {
  if (from.size() < size)
    throw std::runtime_error("cut short");
  const auto front = from.substr(0, size);
  from.remove_prefix(size);
  return front;
}

/// The records of an event file; checks their checksums.
inline std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    const auto header = file.substr(0, 8);
    const auto length = take<std::uint64_t>(file);
    if (take<std::uint32_t>(file) != plain_masked_crc(header))
      throw std::runtime_error("wrong check sum of a length");
    records.emplace_back(take(file, length));
    if (take<std::uint32_t>(file) != plain_masked_crc(records.back()))
      throw std::runtime_error("wrong check sum of a record");
  }
  return records;
}

inline std::uint64_t take_varint(std::string_view& from) {
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(from);
    number |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128)
      return number;
  }
}

/// The fields of a protobuf message: the bytes of their values (eight for a
/// varint).
inline std::map<int, std::vector<std::string>> fields_of(
  std::string_view message) {
  std::map<int, std::vector<std::string>> fields;
  while (!message.empty()) {
    const auto key = take_varint(message);
    auto& values = fields[static_cast<int>(key >> 3)];
    if ((key & 7) == 0) {
      const auto number = take_varint(message);
      values.emplace_back(reinterpret_cast<const char*>(&number),
                          sizeof number);
    } else {
      const auto size = (key & 7) == 1   ? 8
                        : (key & 7) == 5 ? 4
                                         : take_varint(message);
      values.emplace_back(take(message, size));
    }
  }
  return fields;
}

/// The numbers in a sequence of bytes.
template <class Number>
std::vector<Number> numbers_of(std::string_view bytes) {
  std::vector<Number> numbers;
  while (!bytes.empty())
    numbers.push_back(take<Number>(bytes));
  return numbers;
}

}  // namespace troupe::testing
