#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

class model_config;

/// How queries and keys are rotated by their positions (RoFormer, Su et al.,
/// 2021), and how that is stretched to sequences longer than the model was
/// trained on. Fields have the meaning of those of Hugging Face configurations
/// (`rope_parameters`, `rope_scaling`).
struct rotary_options {
  enum class scaling { none, linear, dynamic, llama3, yarn, longrope };

  /// Rotated dimensions of each head, from its first; 0: none. An odd number is
  /// rounded up.
  std::int64_t dimensions = 0;
  double base = 10'000;  // rope_theta
  scaling kind = scaling::none;
  double factor = 1;
  std::int64_t length = 0;           // max_position_embeddings
  std::int64_t original_length = 0;  // original_max_position_embeddings
  /// Scales cosines and sines; none: what `kind` derives from `factor`.
  std::optional<double> attention_factor{};

  double low_frequency = 1, high_frequency = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;          // yarn
  std::optional<double> mscale{}, mscale_all_dim{};
  bool truncate = true;
  std::vector<double> short_factor{}, long_factor{};  // longrope

  bool operator==(const rotary_options&) const = default;

  /// The longest sequence for which the frequencies do not depend on its
  /// length; none: they never do.
  std::optional<std::int64_t> steady_length() const {
    if (kind == scaling::dynamic)
      return length;
    return kind == scaling::longrope ? std::optional(original_length)
                                     : std::nullopt;
  }
};

/// fp32 [pairs of dimensions], for sequences of that length.
at::Tensor rotary_frequencies(const rotary_options& options,
                              std::int64_t length);
/// The factor of cosines and sines.
double rotary_attention_factor(const rotary_options& options);

/// Cosines and sines, fp32 [positions, pairs of dimensions] each.
struct rotation {
  at::Tensor cosines, sines;
};
/// The rotation of `count` positions from `first` on, which end a sequence.
rotation rotation_of(const rotary_options& options, std::int64_t first,
                     std::int64_t count, at::Device device);
/// Rotates `x` [rows, heads, positions, head size]: its first dimensions, of
/// which the first half is paired with the second.
at::Tensor rotated(const at::Tensor& x, const rotation& by);

/// The rotations of a layer, computed once for all microbatches, on the device
/// that asks. The table grows by doubling; what it gave stays valid, also for
/// recorded steps. It holds fp32 [positions, pairs of dimensions] twice.
/// Rotations that depend on a sequence's length are computed each time. Used by
/// one thread at a time.
class rotary_table {
 public:
  explicit rotary_table(rotary_options options)
    : options_(std::move(options)) {}

  rotation of(std::int64_t first, std::int64_t count, at::Device device);

 private:
  rotary_options options_;
  std::vector<rotation> tables_;  // each of the positions from 0 on, growing
};

/// `rope_parameters`, or the older `rope_theta` and `rope_scaling`; `share`: of
/// each head's dimensions that are rotated, unless the fields say.
rotary_options read_rotary(model_config& config, std::int64_t head_size,
                           double base, double share = 1);

}  // namespace troupe
