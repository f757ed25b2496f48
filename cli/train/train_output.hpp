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

/// Saves parameters to a safetensors file, with the metadata that describes
/// their model; does nothing if the path is empty.
void save(const std::string& path, const parameter_list& parameters,
          const train_setup& setup);

/// Writes the outputs of --save-model and --save-adapter, if they are set, from
/// all parameters; does nothing without parameters.
void save_model(const train_options& options, const parameter_list& parameters,
                const train_setup& setup);

/// Whether process 0 logs in enough detail for `log_tensors`. All processes of
/// a job call it.
bool logs_tensors(const std::shared_ptr<mesh>& job);
/// With --log-level debug: logs memory, and every parameter's and gradient's l2
/// norm, after a step.
void log_tensors(std::int64_t step, const parameter_list& parameters);

progress_options progress_to(const train_options& options);

bool validates_at(const train_options& options, const train_setup& setup,
                  std::int64_t step);

/// The request of --sample. Throws `invalid_argument` for a prompt that the
/// model can't continue.
struct sample_request {
  token_texts tokens;
  generation_request request;
  generation_options options;
};
std::optional<sample_request> sample_of(const train_options& options);

/// Warns of a --sample that is longer than the model's context.
void warn_of_long_sample(const train_options& options);

/// Prints the sample that `generate` returns; in a job, one process prints it.
void print_sample(
  const train_options& options, bool shows,
  const std::function<generated(const sample_request& what)>& generate);

/// Prints the output of --dry-run: stages, ranks and the simulated plan.
void print_plan_summary(const train_options& options, const train_setup& setup);

/// Warns of the first loss that is not finite, and again at the end.
class loss_watch {
 public:
  explicit loss_watch(const numerics& options) : options_(options) {}
  void see(const step_event& step);
  /// `saved`: where the parameters were saved, or empty.
  void conclude(const std::string& saved) const;
  /// Throws `op_failed`. `parameter`: the name of a trained parameter that is
  /// not finite; empty: all are finite.
  void require_finite(const std::string& parameter) const;

 private:
  std::string advice() const;

  const numerics& options_;
  std::int64_t first_ = 0;  // step; 0: all were finite
  std::int64_t count_ = 0;
};

/// Warns of a parameter that is not finite before the first step. Empty: all
/// are finite.
void warn_unless_finite(const std::string& parameter);

}  // namespace troupe::cli
