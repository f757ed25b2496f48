#pragma once

#include <memory>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/launch/job.hpp"

namespace troupe::cli {

/// Meets the other processes of the job that the launcher started, and checks
/// that all have equal settings, `more` among them; null if this process is
/// alone. Processes other than 0 log warnings and errors only, with their
/// number. A signal ends the meeting: throws `interrupted`.
std::shared_ptr<mesh> join_job(const CLI::App& command,
                               const train_options& options,
                               signal_watch& signals,
                               job_description more = {});

/// Throws `invalid_argument` for flags that make no sense without other
/// processes, or with them.
void require_job(const train_options& options);

/// Whether this process prints the common output before it has met the others.
bool shows_what_all_would();

/// Whether this process prints, serves and writes for the whole job.
inline bool leads(const std::shared_ptr<mesh>& job) {
  return !job || job->place().leads();
}

}  // namespace troupe::cli
