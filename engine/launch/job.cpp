#include "troupe/engine/launch/job.hpp"

#include "troupe/engine/launch/meeting.hpp"

namespace troupe {

namespace {

/// Connections and the thread that serves them.
struct joined_job {
  explicit joined_job(const launch_environment& place)
    : connections(loop, {place.process, place.processes, 0}) {}

  io_loop loop;
  mesh connections;
};

}  // namespace

std::shared_ptr<mesh> join_job(const job_options& options) {
  auto job = std::make_shared<joined_job>(options.place);
  meet(job->loop, job->connections, options);
  return {job, &job->connections};
}

}  // namespace troupe
