#pragma once

#include <memory>
#include <string>
#include <vector>

#include "disturbed_accelerator.hpp"
#include "small_model.hpp"

namespace troupe::testing {

/// Properties of whole trainings on any device. Tests of this folder check them
/// on a faked device, tests labelled gpu on a GPU.

/// The results of a training, in host memory.
struct training_outcome {
  parameter_list parameters;
  std::vector<double> losses, norms;  // one per step
  double validation = 0;
  at::Tensor outputs;  // of inference
  std::vector<ops_event> ops;
};

using device_pointer = std::shared_ptr<accelerator>;

/// Trains three steps, evaluates and infers; null: on the CPU.
training_outcome train(const small_case& what, const device_pointer& on,
                       const overlap_options& overlap = {});
/// The same with a plain loop.
training_outcome train_plainly(const small_case& what,
                               const device_pointer& on);

/// Copies of parameters in host memory.
parameter_list on_host(const parameter_list& parameters);

/// A case on two ranks for each schedule that trains, with two stages per rank
/// if possible.
std::vector<small_case> trained_schedules();

/// A description of what differs in bits; empty if nothing does.
std::string different_bits(const training_outcome& a,
                           const training_outcome& b);
/// The largest difference of a loss, a parameter or an output; infinite if one
/// is not a number.
double distance(const training_outcome& a, const training_outcome& b);

/// Checks that delays and overwritten freed memory change nothing.
void check_disturbed(const small_case& what, const device_pointer& on,
                     const device_disturbance& how);

}  // namespace troupe::testing
