#include "troupe/monitors/live/followed_job.hpp"

#include <chrono>
#include <thread>

#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

void require_not_failed(const live_message& ended) {
  const auto& content = ended.content;
  if (content.contains("failed") && !has_flag(content, "goes_on"))
    fail(error_code::op_failed, "the job has failed: {}",
         plain_text(field<std::string>(content, "failed")));
}

followed_job::followed_job(const std::string& endpoint,
                           const std::string& token, double patience)
  : endpoint_(endpoint),
    token_(token),
    patience_(patience),
    client_(std::make_unique<live_client>(endpoint_, token_)) {}

void followed_job::interrupt() {
  const std::scoped_lock lock(mutex_);
  is_interrupted_ = true;
  client_->interrupt();
}

void followed_job::require_not_interrupted() const {
  const std::scoped_lock lock(mutex_);
  if (is_interrupted_)
    fail(error_code::interrupted, "interrupted");
}

bool followed_job::follow(const live_message* ended,
                          const std::function<void(live_client&)>& open) {
  const bool goes_on = ended != nullptr && has_flag(ended->content, "goes_on");
  if (ended != nullptr && !goes_on) {
    require_not_failed(*ended);
    return false;
  }
  if (client_->health().contains("epoch") && await_next(goes_on, open))
    return true;
  fail(error_code::transport,
       "{}: the stream was cut: the job's process was killed, or the network "
       "failed",
       endpoint_);
}

/// False: the process of before still answers, and has closed the connection.
bool followed_job::await_next(bool goes_on,
                              const std::function<void(live_client&)>& open) {
  log()->info("the process that led the job is gone; waiting for the next");
  constexpr std::chrono::milliseconds look_every{50};
  std::string problem;
  for (const deadline until(patience_); until.milliseconds() > 0;) {
    require_not_interrupted();
    try {
      return reconnect(goes_on, open);
    } catch (const error& reason) {
      if (reason.code() != error_code::transport)
        throw;
      problem = reason.what();
    }
    std::this_thread::sleep_for(look_every);
  }
  fail(error_code::transport, "no process has led the job at {} for {} s: {}",
       endpoint_, patience_, problem);
}

/// Throws `transport` as long as nobody else answers. False: the process of
/// before does, and has closed the connection.
bool followed_job::reconnect(bool goes_on,
                             const std::function<void(live_client&)>& open) {
  constexpr double patience_of_a_look = 2;
  auto next =
    std::make_unique<live_client>(endpoint_, token_, patience_of_a_look);
  const auto& health = next->health();
  const auto pid = field<std::int64_t>(health, "pid");
  if (field_of(health, "server") == field_of(client_->health(), "server")) {
    if (goes_on)
      fail(error_code::transport, "process {} has not ended yet", pid);
    return false;
  }
  open(*next);
  log()->info("epoch {}: the process of pid {} leads the job",
              field<std::int64_t>(health, "epoch"), pid);
  const std::scoped_lock lock(mutex_);
  client_ = std::move(next);
  if (is_interrupted_)
    client_->interrupt();
  return true;
}

}  // namespace troupe
