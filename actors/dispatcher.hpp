#pragma once

#include "troupe/actors/address_book.hpp"
#include "troupe/actors/tensor_admission.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// Hands what the other processes of a job send to the actors that it is for.
/// What is for nobody here, or more than the plan allows, is refused, which
/// ends the connection.
mesh_events dispatch_to(const address_book_pointer& book,
                        tensor_admission admission);

}  // namespace troupe
