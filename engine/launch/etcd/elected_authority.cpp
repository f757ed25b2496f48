#include "troupe/engine/launch/etcd/elected_authority.hpp"

#include "troupe/base/fail.hpp"

namespace troupe {

endpoint elected_authority(etcd_client& etcd) {
  const auto found = etcd.get(authority_key);
  if (!found)
    fail(error_code::transport,
         "no authority of job {} is elected in etcd now; is `troupe authority` "
         "running?",
         etcd.options().job);
  return parse_endpoint(found->value);
}

}  // namespace troupe
