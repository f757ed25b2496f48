#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/job/job_plans.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

/// Holds what another process announces against the plans, before memory is
/// taken for it. One thread.
class tensor_admission {
 public:
  /// `parameter_bytes`: of the largest stage that lives here.
  tensor_admission(job_layout layout, std::shared_ptr<const job_plans> plans,
                   std::int64_t parameter_bytes);

  /// Throws `mismatch` for tensors from or for a stage that lives elsewhere, of
  /// a message that no plan has, or far larger than those of their kind so far
  /// and than the parameters that are here.
  void check(std::int32_t sender, const envelope& header,
             const std::vector<tensor_form>& announced);
  /// Throws `mismatch` for gradients of more bytes than the parameters that are
  /// here.
  void check_part(std::int32_t sender,
                  const std::vector<tensor_form>& announced) const;

 private:
  void require_place(std::int32_t sender, const envelope& header) const;
  void require_size(std::int32_t sender, const envelope& header,
                    std::int64_t bytes);

  job_layout layout_;
  std::shared_ptr<const job_plans> plans_;
  std::int64_t parameter_bytes_;
  /// Replica, giving stage, taking stage; a gradient is given by the later one.
  using route = std::tuple<std::int32_t, std::int32_t, std::int32_t>;
  /// Bytes of the largest message so far.
  std::map<route, std::int64_t> largest_;
};

}  // namespace troupe
