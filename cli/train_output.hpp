#pragma once

#include <functional>
#include <string>

#include "troupe/cli/train_setup.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

/// Saves parameters to a safetensors file; does nothing if the path is empty.
void save(const std::string& path, const parameter_list& parameters);

/// With --log-level debug: logs memory, and every parameter's and gradient's l2
/// norm, after a step.
void log_tensors(std::int64_t step, const parameter_list& parameters);

progress_options progress_to(const train_options& options);

bool validates_at(const train_options& options, const train_setup& setup,
                  std::int64_t step);

/// Whether tokens are bytes; otherwise a sample is a list of ids.
bool tokens_are_text(const data_options& options);
/// The prompt's token ids, by default the id 0. Throws `invalid_argument`.
std::vector<std::int64_t> prompt_ids(const train_options& options);

/// Prints text from the trained model, for --sample; one process of a job shows
/// it.
void print_sample(
  const train_options& options, bool shows,
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of);

/// Prints the output of --dry-run: stages, ranks and the simulated plan.
void print_plan_summary(const train_options& options, const train_setup& setup);

}  // namespace troupe::cli
