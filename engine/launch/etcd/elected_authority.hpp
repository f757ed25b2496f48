#pragma once

#include "troupe/engine/launch/etcd/etcd_client.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

/// The job's key in etcd that has the address of its authority, as long as one
/// is elected.
inline constexpr auto authority_key = "authority";

/// Where the elected authority of a job is. Throws `transport` if there is none
/// now.
endpoint elected_authority(etcd_client& etcd);

}  // namespace troupe
