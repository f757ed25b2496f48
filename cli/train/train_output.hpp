#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/cli/model/prompts.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

/// Saves parameters to a safetensors file, with what it takes to make their
/// model; does nothing if the path is empty.
void save(const std::string& path, const parameter_list& parameters,
          const train_setup& setup);

/// Writes --save-model and --save-adapter, if they are given, from all
/// parameters; does nothing where there are none.
void save_model(const train_options& options, const parameter_list& parameters,
                const train_setup& setup);

/// Whether process 0 logs in enough detail for `log_tensors`; all processes of
/// a job call it.
bool logs_tensors(const std::shared_ptr<mesh>& job);
/// With --log-level debug: logs memory, and every parameter's and gradient's l2
/// norm, after a step.
void log_tensors(std::int64_t step, const parameter_list& parameters);

progress_options progress_to(const train_options& options);

bool validates_at(const train_options& options, const train_setup& setup,
                  std::int64_t step);

/// What --sample asks of the trained model, if it does. Throws
/// `invalid_argument` for a prompt that the model can't continue.
struct wanted_sample {
  token_texts tokens;
  generation_request request;
  generation_options options;
};
std::optional<wanted_sample> sample_of(const train_options& options);

/// Prints what `generate` makes of it; one process of a job shows it.
void print_sample(
  const train_options& options, bool shows,
  const std::function<generated(const wanted_sample& what)>& generate);

/// Prints the output of --dry-run: stages, ranks and the simulated plan.
void print_plan_summary(const train_options& options, const train_setup& setup);

/// Warns of the first loss that is not finite, and once more at the end.
class loss_watch {
 public:
  explicit loss_watch(const numerics& options) : options_(options) {}
  void see(const step_event& step);
  /// `saved`: where the parameters were saved; may be empty.
  void conclude(const std::string& saved) const;
  /// Throws `op_failed` for a trained parameter that is not finite; empty: all
  /// are.
  void require_finite(const std::string& parameter) const;

 private:
  std::string advice() const;

  const numerics& options_;
  std::int64_t first_ = 0;  // step; 0: all were finite
  std::int64_t count_ = 0;
};

/// Warns of a parameter that is not finite before the first step; empty: all
/// are.
void warn_unless_finite(const std::string& parameter);

}  // namespace troupe::cli
