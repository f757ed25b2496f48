#include "troupe/actors/job/run_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe {

namespace {

const char* name_of(phase of) {
  switch (of) {
    case phase::training:
      return "step";
    case phase::validation:
      return "validation at step";
    case phase::inference:
      break;
  }
  return "inference at step";
}

}  // namespace

std::string to_text(const op_failure& failure) {
  const auto& place = failure.source;
  auto text = fmt::format("{} {}", name_of(place.phase), place.step);
  if (place.rank < 0 && failure.op.empty())  // of no rank or replica
    return place.step > 0 ? fmt::format("{}: {}", text, failure.reason)
                          : failure.reason;
  if (place.rank >= 0)
    text += fmt::format(", rank {}", place.rank);
  if (!failure.op.empty())
    text += fmt::format(", op {}", failure.op);
  std::vector<std::string> parts;
  if (place.stage >= 0)
    parts.push_back(fmt::format("stage {}", place.stage));
  if (place.microbatch >= 0)
    parts.push_back(fmt::format("microbatch {}", place.microbatch));
  parts.push_back(fmt::format("replica {}", place.data_rank));
  return fmt::format("{} ({}): {}", text, fmt::join(parts, ", "),
                     failure.reason);
}

std::string in_words(std::int32_t process, const job_layout& layout) {
  std::vector<std::string> ranks;
  for (std::int32_t d = 0; d < layout.data_ranks; ++d)
    for (std::int32_t r = 0; r < layout.ranks; ++r)
      if (layout.process_of(d, r) == process)
        ranks.push_back(layout.data_ranks > 1
                          ? fmt::format("rank {} of replica {}", r, d)
                          : fmt::format("rank {}", r));
  if (ranks.empty())
    return fmt::format("process {}", process);
  return fmt::format("process {} ({})", process, fmt::join(ranks, ", "));
}

std::string to_text(const peer_lost& lost, const job_layout& layout) {
  return fmt::format("{} is gone: {}", in_words(lost.process, layout),
                     lost.reason);
}

std::string waits_of(const progress_board& board, const step_context& step) {
  return fmt::format("{}", fmt::join(board.describe(*step.plan), "; "));
}

}  // namespace troupe
