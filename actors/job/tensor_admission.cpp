#include "troupe/actors/job/tensor_admission.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

tensor_admission::tensor_admission(job_layout layout,
                                   std::shared_ptr<const job_plans> plans,
                                   std::int64_t parameter_bytes)
  : layout_(layout),
    plans_(std::move(plans)),
    parameter_bytes_(parameter_bytes) {}

void tensor_admission::check(std::int32_t sender, const envelope& header,
                             const std::vector<tensor_form>& announced) {
  require_place(sender, header);
  require_size(sender, header, static_cast<std::int64_t>(bytes_of(announced)));
}

void tensor_admission::check_part(
  std::int32_t sender, const std::vector<tensor_form>& announced) const {
  const auto bytes = static_cast<std::int64_t>(bytes_of(announced));
  if (bytes > parameter_bytes_)
    fail(error_code::mismatch,
         "process {} announces {} bytes of gradients; the parameters of this "
         "process have {}",
         sender, bytes, parameter_bytes_);
}

/// Whether the step has that very message is the rank's to check.
void tensor_admission::require_place(std::int32_t sender,
                                     const envelope& header) const {
  const auto& placement = plans_->places();
  const auto lives = [&](std::int32_t stage, std::int32_t process) {
    const stage_instance which{stage, header.copy};
    return placement.has(which)
           && layout_.process_of(header.data_rank, placement.rank_of(which))
                == process;
  };
  if (!lives(header.from_stage, sender)
      || !lives(header.to_stage, layout_.process))
    fail(error_code::mismatch,
         "process {} sent a tensor from stage {} to stage {} of replica {}, "
         "which are not stages of that process and this one",
         sender, header.from_stage, header.to_stage, header.data_rank);
  if (!plans_->has_message(header.message))
    fail(error_code::mismatch,
         "process {} sent message {}, which the plan does not have", sender,
         header.message);
}

/// Lengths differ from one microbatch to the next, most where a prompt is of
/// one token and the next one of thousands, but not without bound.
void tensor_admission::require_size(std::int32_t sender, const envelope& header,
                                    std::int64_t bytes) {
  constexpr std::int64_t most_times = 256, always = std::int64_t{1} << 26;
  if (bytes == 0)
    return;
  const route subject(header.data_rank, header.from_stage, header.to_stage);
  auto& largest = largest_.emplace(subject, bytes).first->second;
  const auto most =
    std::max({largest * most_times, always, 4 * parameter_bytes_});
  if (bytes > most)
    fail(error_code::mismatch,
         "process {} announces {} bytes from stage {} to stage {}; after at "
         "most {} so far, up to {} are accepted",
         sender, bytes, header.from_stage, header.to_stage, largest, most);
  largest = std::max(largest, bytes);
}

}  // namespace troupe
