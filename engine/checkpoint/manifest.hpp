#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Where a run stands between two steps.
struct run_progress {
  std::int64_t step = 0;          // updates made or skipped
  std::int64_t microbatches = 0;  // taken so far by all replicas
  double loss_scale = 1;
  std::int64_t good_steps = 0;  // since the loss scale last changed
  std::int64_t skipped = 0;     // updates, since the run began

  friend bool operator==(const run_progress&, const run_progress&) = default;
};

/// One safetensors file of a checkpoint.
struct checkpoint_file {
  std::string name;  // within the checkpoint's folder
  std::uint64_t bytes = 0;
  std::string sha256;  // hexadecimal
  /// The first tensor that holds a NaN or an infinity; empty: none does.
  std::string not_finite = {};

  friend bool operator==(const checkpoint_file&,
                         const checkpoint_file&) = default;
};

/// What a checkpoint says of itself: a JSON file in its folder. Parameters are
/// stored under their unsplit names, so that any process count, schedule and
/// split can read them; optimizers' state as `state_name`.
struct manifest {
  std::string run{};  // of the run that began: any text that tells runs apart
  run_progress progress{};
  /// Settings of the data, which a resumed run compares with its own.
  std::map<std::string, std::string> settings{};
  /// Flags on which updates depend, as the run was given them, which a resumed
  /// run compares with its own; and the schedule of learning rates.
  std::map<std::string, std::string> flags{};
  std::map<std::string, std::string> learning_rate{};
  /// The model's name ("model"), its options, "seq" and "vocabulary"; empty for
  /// a model without a registered name.
  std::map<std::string, std::string> model{};
  /// Names that share the tensor of another: alias -> the name that is stored.
  std::map<std::string, std::string> aliases{};
  std::vector<checkpoint_file> files{};

  /// The first tensor that is not finite, so that a run should not go on from
  /// here; empty: all are.
  std::string not_finite() const;

  friend bool operator==(const manifest&, const manifest&) = default;
};

constexpr std::string_view manifest_name = "manifest.json";

std::string to_json(const manifest& what);
/// Throws `invalid_checkpoint`, naming `source` and the field; `mismatch` for
/// the format of another version.
manifest parse_manifest(std::string_view text, const std::string& source);

/// "optimizer/exp_avg/blocks.0.weight": the state `tensor` of a parameter.
std::string state_name(const std::string& tensor, const std::string& parameter);
/// The parts of such a name; none for a parameter's own.
struct state_name_parts {
  std::string tensor, parameter;
};
std::optional<state_name_parts> split_state_name(std::string_view name);
inline bool is_state_name(std::string_view name) {
  return split_state_name(name).has_value();
}

/// A text for `manifest::run`: 32 random hexadecimal digits.
std::string new_run_name();

}  // namespace troupe
