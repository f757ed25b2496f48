#include "troupe/training/checkpoint_saver.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/training/resume.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// The time that another process's report has to arrive: why it failed first,
/// or what it did before it left.
constexpr auto longest_report_wait = std::chrono::milliseconds(300);

double seconds(clock::duration span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

/// The leading process's wait for the parts of the others.
struct checkpoint_saver::part_wait {
  struct sign {
    std::int64_t bytes = 0;
    clock::duration at{};
  };
  clock::time_point looked = clock::now();
  clock::duration time{};  // stands still while this process is stopped
  std::map<std::int32_t, sign> last{};             // by process
  std::map<std::int32_t, clock::duration> left{};  // when it was lost
  clock::duration incomplete{};  // last time a report was missing

  void look() {
    const auto now = clock::now();
    time += std::min<clock::duration>(now - looked, std::chrono::seconds(1));
    looked = now;
  }
  /// The time for which a process has sent nothing, not even a heartbeat.
  clock::duration silence_of(std::int32_t process, const mesh& job) {
    auto& sign = last[process];
    if (const auto bytes = job.bytes_received(process); bytes != sign.bytes)
      sign = {bytes, time};
    return time - sign.at;
  }
  /// The time since a process was seen to be lost; 0: it is not.
  clock::duration absence_of(std::int32_t process, const mesh& job) {
    if (!job.lost(process))
      return {};
    return time - left.try_emplace(process, time).first->second;
  }
};

checkpoint_saver::checkpoint_saver(saving_options options, saved_run run,
                                   resumed_run from, folder_lock* own)
  : options_(std::move(options)),
    own_(own),
    folder_(options_.folder, shared_text(run.job, new_run_name())),
    about_(std::move(run.about)),
    parts_(run.parts),
    job_(std::move(run.job)),
    saved_(from.saved),
    complete_(std::max<std::int64_t>(from.saved, 0)) {
  about_.run = std::move(from.name);
  if (!options_.folder.empty())
    require_writable_folder(options_.folder);
}

checkpoint_saver::~checkpoint_saver() {
  if (!writer_.get_stop_token().stop_requested())
    settle();
  finish_or_log();
}

void checkpoint_saver::after_step(const run_progress& progress,
                                  const std::function<snapshot()>& copies,
                                  bool now) {
  const bool due = options_.every > 0 && progress.step % options_.every == 0;
  if (options_.folder.empty() || progress.step <= saved_ || (!due && !now))
    return;
  finish_or_log();  // training goes on; the next one may do
  auto parts = copies();
  saved_ = progress.step;
  begun_ = clock::now();
  const auto done = std::make_shared<std::promise<void>>();
  auto work = [this, progress, parts = std::move(parts),
               done](const std::stop_token& ended) {
    try {
      write(progress, parts, ended);
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  };
  written_ = done->get_future();
  try {
    writer_ = std::jthread(std::move(work));
  } catch (const std::system_error& reason) {
    const auto why = fmt::format("no thread that writes: {}", reason.what());
    refuse(progress.step, why);
    done->set_exception(std::make_exception_ptr(error(error_code::io, why)));
  }
}

void checkpoint_saver::report_to_leader(std::int64_t step,
                                        const std::string& problem) {
  job_->send(0, {frame_type::note, fmt::format("{} {}", step, problem), {}});
}

void checkpoint_saver::write(const run_progress& progress,
                             const snapshot& parts,
                             const std::stop_token& ended) {
  try {
    if (own_ != nullptr)
      if (const auto problem = own_->renew(); !problem.empty())
        spdlog::warn(problem);
    if (leads_job(job_))
      folder_.begin(progress.step);
    for (const auto& [part, tensors] : parts)
      folder_.write_part(progress.step, part, tensors);
    if (leads_job(job_))
      complete(progress, ended);
    else
      report_to_leader(progress.step, {});
  } catch (...) {
    if (!leads_job(job_))  // before the others meet the consequences
      report_to_leader(progress.step, thrown_text());
    const auto reason = first_cause(progress.step);
    if (leads_job(job_))  // first: space for the mark, if the disk is full
      folder_.discard(progress.step);
    if (job_)
      folder_.refuse(progress.step);
    std::rethrow_exception(reason);
  }
}

void checkpoint_saver::complete(const run_progress& progress,
                                const std::stop_token& ended) {
  auto about = about_;
  about.progress = progress;
  part_wait wait;
  const auto problem =
    folder_.complete(std::move(about), parts_, options_.kept, [&] {
      require_progress(progress.step, wait);
      return ended.stop_requested();
    });
  notes_.erase(notes_.begin(), notes_.upper_bound(progress.step));
  complete_ = progress.step;
  spdlog::info("checkpoint {}", printable(folder_.path_of(progress.step)));
  if (!problem.empty())
    spdlog::warn("the checkpoint is complete, but: {}", problem);
}

/// The failure that is handled, or in the process that leads that of another
/// one, which may have caused it.
std::exception_ptr checkpoint_saver::first_cause(std::int64_t step) {
  auto own = std::current_exception();
  try {
    for (const auto begun = clock::now();
         job_ && leads_job(job_) && clock::now() < begun + longest_report_wait;
         std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      require_written(step);
  } catch (const error&) {
    return std::current_exception();
  }
  return own;
}

/// Takes the others' reports. Throws if one could not write its part.
void checkpoint_saver::require_written(std::int64_t step) {
  for (std::int32_t p = 1; p < job_->place().processes; ++p)
    while (const auto note = job_->poll(p)) {
      const auto& text = note->head;
      const auto space = std::min(text.find(' '), text.size() - 1);
      const auto of = parse_number<std::int64_t>(text.substr(0, space));
      notes_[of.value_or(-1)][p] = text.substr(space + 1);
    }
  for (const auto& [process, problem] : notes_[step])
    if (!problem.empty())
      fail(error_code::io, "process {} could not write its part: {}", process,
           problem);
}

/// Looks after processes whose parts are missing. Throws once a process could
/// not write its own, has left or is silent for too long without a report, or
/// all have reported and parts still can't be seen. A process that is alive may
/// write for as long as it needs.
void checkpoint_saver::require_progress(std::int64_t step, part_wait& wait) {
  if (!job_)
    return;
  require_written(step);
  const bool stopping =
    options_.timeouts.is_stopping && options_.timeouts.is_stopping();
  const auto longest =
    stopping ? options_.timeouts.last_silence : options_.timeouts.silence;
  const auto others = job_->place().processes - 1;
  const auto& reports = notes_[step];
  wait.look();
  for (std::int32_t p = 1; p <= others; ++p) {
    if (reports.contains(p))
      continue;
    if (wait.absence_of(p, *job_) >= longest_report_wait)
      fail(error_code::transport,
           "its part is missing: process {} has left: {}", p, *job_->lost(p));
    if (wait.silence_of(p, *job_) > longest)
      fail(error_code::io,
           "process {} has not written its part, and has sent nothing for "
           "{:.3g} s: is it stopped?",
           p, seconds(longest));
  }
  if (std::ssize(reports) < others) {
    wait.incomplete = wait.time;
    return;
  }
  folder_.look_again(step);
  if (wait.time > wait.incomplete + options_.timeouts.delay)
    fail(error_code::io,
         "{}: all processes have written their parts, and some are not there; "
         "was it moved, or do the processes see different folders?",
         printable(options_.folder));
}

/// Waits for the writer; returns whether it ends within this time.
bool checkpoint_saver::await_writer(std::chrono::milliseconds longest) {
  for (auto left = longest; left.count() > 0;) {
    const auto pause = std::min(left, options_.timeouts.warning);
    if (written_.wait_for(pause) == std::future_status::ready)
      return true;
    left -= pause;
    if (left.count() > 0)
      spdlog::warn(
        "the checkpoint of step {} is still being written, for "
        "{:.3g} s",
        saved_, seconds(clock::now() - begun_));
  }
  return false;
}

void checkpoint_saver::finish() {
  if (!written_.valid())
    return;
  await_writer(std::chrono::milliseconds::max());
  if (writer_.joinable())
    writer_.join();
  written_.get();
}

void checkpoint_saver::finish_or_log() {
  try {
    finish();
  } catch (...) {
    spdlog::error("a checkpoint could not be written: {}", thrown_text());
  }
}

void checkpoint_saver::settle(
  std::optional<std::chrono::milliseconds> longest) {
  const auto limit = longest.value_or(options_.timeouts.settling);
  if (!written_.valid() || await_writer(limit))
    return finish_or_log();
  spdlog::error(
    "the checkpoint of step {} is abandoned: it was not written "
    "within {:.3g} s",
    saved_, seconds(limit));
  writer_.request_stop();
}

void checkpoint_saver::refuse(std::int64_t step, const std::string& why) {
  if (!options_.folder.empty() && !leads_job(job_))
    report_to_leader(step, why);
}

std::string checkpoint_saver::summary(std::int64_t step) const {
  if (options_.folder.empty())
    return "no checkpoint is saved";
  const auto last = complete_.load();
  const auto path = printable(folder_.path_of(last));
  if (last == 0)
    return "no checkpoint is saved";
  if (last == step)
    return fmt::format("step {} is saved in {}", step, path);
  return fmt::format("step {} is not saved; the last checkpoint is {}", step,
                     path);
}

}  // namespace troupe
