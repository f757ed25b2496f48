#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/membership/failure_policy.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe::membership {

/// All that an authority must remember. It is stored before anything of it is
/// announced.
struct job_record {
  std::int64_t revision = 0;  // one more each time it is stored
  membership::epoch epoch{};
  std::int64_t checkpoint_step = -1;
  std::vector<member_id> drained{};  // as users wished
  std::vector<past_failure> failures{};
  std::string stop_reason{};  // not empty: the job has ended
};
TROUPE_FIELDS(job_record, revision, epoch, checkpoint_step, drained, failures,
              stop_reason)

enum class swap_result : std::uint8_t {
  stored,
  conflict,  ///< another record is there: of another authority
  unknown,   ///< it may have been stored or not
};

/// Where the record is: one key, changed by compare-and-swap, which must be
/// durable and linearizable. Called in the authority's own thread, and may
/// wait.
class record_store {
 public:
  virtual ~record_store() = default;
  /// A record of revision 0 if none was stored; none if it can't be read now.
  virtual std::optional<job_record> read() = 0;
  /// The revision of what `read` would return.
  virtual std::optional<std::int64_t> revision() = 0;
  /// Stores the record if the stored one has the revision before this one's.
  virtual swap_result swap(const job_record&) = 0;
};

}  // namespace troupe::membership
