#pragma once

#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/stage/sharding/ties.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"
#include "troupe/engine/stage/update/parameter_dtypes.hpp"

namespace troupe {

// Parameters and optimizers' state under the names that checkpoints use.

/// Copies in host memory.
parameter_list host_copies(const parameter_list& parameters,
                           const optimizer_state& state);

/// Copies stored values into parameters; those of tied ones are their owners'.
/// Before changing anything, throws
/// `invalid_checkpoint` naming a tensor that is missing or differently shaped.
void restore_parameters(const stored_checkpoint& from,
                        const parameter_list& parameters,
                        const alias_names& aliases);

/// The stored state of the parameters that an optimizer updates; `own`: its
/// state now. For parameters of 16 bits (`dtypes`) without a stored master the
/// stored value is it.
optimizer_state stored_state(const stored_checkpoint& from, optimizer_state own,
                             const alias_names& aliases,
                             const parameter_dtypes& dtypes);

/// Throws `invalid_checkpoint` unless the checkpoint holds as many elements of
/// parameters as the model.
void require_elements(const stored_checkpoint& from, std::int64_t elements);

}  // namespace troupe
