#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "troupe/training/resume.hpp"

namespace troupe {

class mesh;

/// For how long a process looks for what process 0 has written: network file
/// systems show it to other machines after some seconds.
inline constexpr std::chrono::milliseconds usual_sight{10'000};

/// Throws `io`, in all processes of the job, unless all see one folder at this
/// path, which exists in process 0: it names a process that does not. All
/// processes of the job call it; without a job, it returns at once.
void require_shared_folder(const std::string& folder,
                           const std::shared_ptr<mesh>& job,
                           const checkpoint_words& words,
                           std::chrono::milliseconds longest = usual_sight);

/// The same of a checkpoint to read, of which each machine may have a copy.
void require_same_checkpoint(const std::string& checkpoint,
                             const std::shared_ptr<mesh>& job,
                             const checkpoint_words& words,
                             std::chrono::milliseconds longest = usual_sight);

}  // namespace troupe
