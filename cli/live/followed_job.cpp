#include "troupe/cli/live/followed_job.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>

#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe::cli {

followed_job::followed_job(const live_options& job, double patience)
  : token_(read_token(job.token_file)),
    endpoint_(job.where(token_)),
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

bool followed_job::follow(const live_message* ended) {
  const bool goes_on = ended != nullptr && has_flag(ended->content, "goes_on");
  if (!client_->health().contains("epoch") || (ended != nullptr && !goes_on))
    return false;
  spdlog::info("the process that led the job is gone; waiting for the next");
  constexpr std::chrono::milliseconds look_every{50};
  for (const deadline until(patience_); until.milliseconds() > 0;) {
    require_not_interrupted();
    try {
      return reconnect(goes_on);
    } catch (const error& reason) {
      if (reason.code() != error_code::transport)
        throw;
    }
    std::this_thread::sleep_for(look_every);
  }
  spdlog::warn("no process has led the job at {} for {} s", endpoint_,
               patience_);
  return false;
}

/// Throws `transport` as long as nobody else answers. False: the process of
/// before does, and has closed the connection.
bool followed_job::reconnect(bool goes_on) {
  constexpr double patience_of_a_look = 2;
  auto next =
    std::make_unique<live_client>(endpoint_, token_, patience_of_a_look);
  const auto pid = field<std::int64_t>(next->health(), "pid");
  if (pid == field<std::int64_t>(client_->health(), "pid")) {
    if (goes_on)
      fail(error_code::transport, "process {} has not ended yet", pid);
    return false;
  }
  spdlog::info("epoch {}: the process of pid {} leads the job",
               field<std::int64_t>(next->health(), "epoch"), pid);
  const std::scoped_lock lock(mutex_);
  client_ = std::move(next);
  if (is_interrupted_)
    client_->interrupt();
  return true;
}

bool repeated_messages::note(const live_message& message,
                             std::int64_t monitor) {
  if (message.type == "event")
    return note_event(message.content, monitor);
  if (message.type == "alert")
    return note_finding(alert_of(message.content).source, monitor,
                        json_text(message.content));
  // Metrics measure times, so those of a repeated step may differ.
  return message.type == "metrics"
         && note_finding(metrics_of(message.content).source, monitor,
                         message.type);
}

void repeated_messages::repeat() {
  for (auto& [which, seen] : seen_)
    seen.before = seen.now;
}

/// Events of a step are void until it has ended.
bool repeated_messages::note_event(const nlohmann::json& content,
                                   std::int64_t monitor) {
  const auto kind = field<std::string>(content, "event");
  if (kind == epoch_event::kind || kind == dropped_event::kind)
    return false;
  const auto what = event_of(content);
  const auto& source = source_of(what);
  auto& seen = seen_[{monitor, source.phase}];
  if (source.step <= seen.before.step)
    return true;
  if (kind == step_event::kind)
    seen.now.step = source.step;
  return false;
}

/// Those of the last step may not all have come.
bool repeated_messages::note_finding(const event_source& source,
                                     std::int64_t monitor, std::string text) {
  auto& seen = seen_[{monitor, source.phase}];
  if (source.step < seen.before.step
      || (source.step == seen.before.step
          && seen.before.findings.contains(text)))
    return true;
  if (source.step > seen.now.step)
    seen.now = {source.step};
  if (source.step == seen.now.step)
    seen.now.findings.insert(std::move(text));
  return false;
}

}  // namespace troupe::cli
