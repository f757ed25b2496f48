#pragma once

#include "troupe/actors/job/tensor_admission.hpp"
#include "troupe/actors/system/address_book.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// Hands what the other processes of a job send to the actors that it is for.
/// Refuses messages without a receiver here, or beyond the plan's credits,
/// which ends the connection.
mesh_events dispatch_to(const address_book_pointer& book,
                        tensor_admission admission);

}  // namespace troupe
