#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/events/row_estimates.hpp"
#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// A tensor's role in the model. Also a set of kinds, joined by `|`.
enum class tensor_kind : std::uint8_t {
  none = 0,
  activation = 1,           // output of a module's forward
  input = 2,                // its input
  weight = 4,               // its own parameters, as its forward used them
  activation_gradient = 8,  // gradient of its output
  parameter = 16,           // after the backwards, before the update
  gradient = 32,            // its gradient, reduced, before clipping
  loss = 64,
};
template <>
inline constexpr auto largest_value<tensor_kind> =
  static_cast<tensor_kind>(127);

/// What a monitor needs about a tensor. Also a set.
enum class tensor_needs : std::uint8_t {
  none = 0,
  statistics = 1,  // fused, computed where the tensor is made
  histogram = 2,   // with a log2 histogram
  handle = 4,      // the tensor itself, kept alive
  extremes = 8,    // at least the results of `measure_extremes`
  sample = 16,     // estimates, or statistics
};
template <>
inline constexpr auto largest_value<tensor_needs> =
  static_cast<tensor_needs>(31);

constexpr tensor_kind operator|(tensor_kind a, tensor_kind b) {
  return static_cast<tensor_kind>(static_cast<unsigned>(a)
                                  | static_cast<unsigned>(b));
}
constexpr tensor_needs operator|(tensor_needs a, tensor_needs b) {
  return static_cast<tensor_needs>(static_cast<unsigned>(a)
                                   | static_cast<unsigned>(b));
}
constexpr bool has(tensor_kind set, tensor_kind part) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(part)) != 0;
}
constexpr bool has(tensor_needs set, tensor_needs part) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(part)) != 0;
}

constexpr bool is_one(tensor_kind kind) {
  return std::popcount(static_cast<unsigned>(kind)) <= 1;
}

/// Kinds that modules publish while they run, by `observe`.
inline constexpr auto module_kinds = tensor_kind::activation
                                     | tensor_kind::input | tensor_kind::weight
                                     | tensor_kind::activation_gradient;

const char* to_text(tensor_kind kind);

/// A set of kinds, as subscriptions hold it.
struct tensor_kinds {
  tensor_kind set = tensor_kind::none;
};
TROUPE_FIELDS(tensor_kinds, set)

/// A module, parameter or loss, by its name in the unsplit model.
struct tensor_owner {
  std::string name;             // dotted
  std::string class_name = {};  // of a module, without namespaces, or empty
  std::vector<std::int64_t> shape = {};  // of a parameter that is sharded
};

/// The kind of value in a tensor's position.
enum class tensor_content : std::uint8_t { tensor, nothing, other };
template <>
inline constexpr auto largest_value<tensor_content> = tensor_content::other;

/// One tensor as monitors see it.
struct tensor_record {
  tensor_kind kind = tensor_kind::none;
  tensor_content content = tensor_content::tensor;
  std::shared_ptr<const tensor_owner> owner;
  /// Index of several: input[index], output[index][inner]; -1: the only one.
  std::int16_t index = -1, inner = -1;
  /// A weight's name within its module.
  std::string part = {};
  /// Counts the module calls of an op; a call's records are adjacent: weights,
  /// inputs, outputs.
  std::int32_t call = 0;
  std::int32_t dimensions = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;
  tensor_statistics statistics = {};  // if they were asked for
  /// If a sample was enough, and less than the tensor; then `statistics` are
  /// extremes that somebody else asked for, or empty.
  std::optional<row_estimates> sample = {};
  at::Tensor tensor = {};  // if it was asked for
};

/// Without the handle of the tensor.
template <class Archive>
void fields(Archive& archive, tensor_record& v) {
  auto owner = v.owner ? *v.owner : tensor_owner{};
  TROUPE_EACH_FIELD(v, kind, content)
  archive("name", owner.name);
  archive("class", owner.class_name);
  archive.within_job("shape", owner.shape);
  TROUPE_EACH_FIELD(v, index, inner, part, call, dimensions, dtype, statistics,
                    sample)
  if constexpr (Archive::reads) {
    archive.require(is_one(v.kind), "kind");
    archive.require(
      std::ranges::all_of(owner.shape, [](auto size) { return size >= 0; }),
      "shape");
    v.owner = std::make_shared<const tensor_owner>(std::move(owner));
  }
}

/// "weight", "input[0]", "output", "output[1][0]", "gradient", ...
std::string part_text(const tensor_record& record);

}  // namespace troupe
