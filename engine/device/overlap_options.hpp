#pragma once

namespace troupe {

/// Which work runs beside the compute ops of a rank, or beside each other.
/// Other work delays them; results are the same.
struct overlap_options {
  bool data = true;       // batches on their way to a device
  bool reduce = true;     // gradients of replicas
  bool transfers = true;  // tensors between devices
  bool pairs = true;      // the two ops of a pair
  bool copies = true;     // activations to the host's memory and back

  friend bool operator==(const overlap_options&,
                         const overlap_options&) = default;
};

}  // namespace troupe
