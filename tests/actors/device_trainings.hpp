#pragma once

#include <memory>
#include <string>
#include <vector>

#include "disturbed_accelerator.hpp"
#include "small_model.hpp"

namespace troupe::testing {

/// Properties of whole trainings on any device: tests of this folder check them
/// on a faked device, tests labelled gpu on a GPU.

/// The results of a training, in the host's memory.
struct training_outcome {
  parameter_list parameters;
  std::vector<double> losses, norms;  // a step each
  double validation = 0;
  at::Tensor outputs;  // of inference
  std::vector<ops_event> ops;
};

using device_pointer = std::shared_ptr<accelerator>;

/// Three steps, an evaluation and an inference; null: on the CPU.
training_outcome train(const small_case& what, const device_pointer& on,
                       const overlap_options& overlap = {});
/// The same in a plain loop.
training_outcome train_plainly(const small_case& what,
                               const device_pointer& on);

/// Copies.
parameter_list on_host(const parameter_list& parameters);

/// Two ranks by each schedule that trains, with two stages a rank where it can.
std::vector<small_case> trained_schedules();

/// What differs in bits, in words; empty if nothing does.
std::string different_bits(const training_outcome& a,
                           const training_outcome& b);
/// The largest difference of a loss, a parameter or an output; infinite where
/// a number is none.
double distance(const training_outcome& a, const training_outcome& b);

/// Checks that delays, and memory that is overwritten, change nothing.
void check_disturbed(const small_case& what, const device_pointer& on,
                     const disturbance& how);

}  // namespace troupe::testing
