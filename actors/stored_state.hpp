#pragma once

#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"
#include "troupe/engine/stage/update/parameter_dtypes.hpp"

namespace troupe {

// A model's parameters and buffers (`model_state`), and optimizers' state,
// under the names that checkpoints use.

/// The tensors of a state behind their names: for each the number of the piece
/// and the tensor's own name.
tensor_list packed(const optimizer_state& state);
/// What `packed` returned, of so many pieces.
optimizer_state unpacked(const tensor_list& tensors, std::size_t pieces);

/// Copies in host memory.
parameter_list host_copies(const parameter_list& model_state,
                           const optimizer_state& state);

/// Copies stored values into parameters and buffers; those of tied parameters
/// are their owners'. Before changing anything, throws
/// `invalid_checkpoint` naming a tensor that is missing or differently shaped.
void restore_model(const stored_checkpoint& from,
                   const parameter_list& model_state,
                   const alias_names& aliases);

/// The stored state of the parameters that an optimizer updates; `own`: its
/// state now. For parameters of 16 bits (`dtypes`) without a stored master the
/// stored value is it.
optimizer_state stored_state(const stored_checkpoint& from, optimizer_state own,
                             const alias_names& aliases,
                             const parameter_dtypes& dtypes);

/// Throws `invalid_checkpoint` unless the checkpoint holds as many elements of
/// parameters and buffers as the model; those of tied parameters count once.
void require_elements(const stored_checkpoint& from, std::int64_t elements);
std::int64_t elements_of(const parameter_list& model_state,
                         const alias_names& aliases);

}  // namespace troupe
