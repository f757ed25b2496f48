#include "troupe/cli/train/checkpoint_saver.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/stage/sharding/ties.hpp"

namespace troupe::cli {

namespace {

/// For other processes to write their parts.
constexpr auto longest_wait = std::chrono::minutes(10);
/// For what they have written to be seen here.
constexpr auto longest_delay = std::chrono::seconds(10);
/// For another process to tell why it failed first.
constexpr auto longest_courtesy = std::chrono::milliseconds(300);

}  // namespace

checkpoint_saver::checkpoint_saver(const train_options& options,
                                   const train_setup& setup, resumed_run from)
  : options_(options.checkpoints),
    folder_(options_.folder, shared(setup.trainer.job, new_run_name())),
    about_{.run = std::move(from.name),
           .settings = setup.data_settings,
           .model = setup.model_texts,
           .aliases = aliases_of(ties_of(setup.model.layers))},
    parts_(options.plain ? 1 : setup.trainer.schedule.ranks()),
    job_(setup.trainer.job),
    saved_(from.saved) {
  if (options_.folder.empty())
    return;
  about_.settings[optimizer_setting] = options.optimisation.optimizer.optimizer;
  require_writable_folder(options_.folder);
}

checkpoint_saver::~checkpoint_saver() = default;

void checkpoint_saver::after_step(const run_progress& progress,
                                  const std::function<snapshot()>& copies,
                                  bool last) {
  const bool due = options_.every > 0 && progress.step % options_.every == 0;
  if (options_.folder.empty() || progress.step == saved_ || (!due && !last))
    return;
  try {
    finish();
  } catch (...) {  // training goes on; the next one may do
    spdlog::error("a checkpoint could not be written: {}", thrown_text());
  }
  saved_ = progress.step;
  writer_ = std::jthread(
    [this, progress, parts = copies()](const std::stop_token& ended) {
      try {
        write(progress, parts, ended);
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
}

void checkpoint_saver::write(const run_progress& progress,
                             const snapshot& parts,
                             const std::stop_token& ended) {
  try {
    for (const auto& [part, tensors] : parts)
      folder_.write_part(progress.step, part, tensors);
    if (leads(job_))
      complete(progress, ended);
    else
      job_->note(0, fmt::format("{} ", progress.step));
  } catch (...) {
    if (!leads(job_))  // before the others meet the consequences
      job_->note(0, fmt::format("{} {}", progress.step, thrown_text()));
    if (leads(job_))  // first: space for the mark, if the disk is full
      folder_.discard(progress.step);
    if (job_)
      folder_.refuse(progress.step);
    if (leads(job_))
      throw_first_cause(progress.step);
    throw;
  }
}

void checkpoint_saver::complete(const run_progress& progress,
                                const std::stop_token& ended) {
  auto about = about_;
  about.progress = progress;
  using clock = std::chrono::steady_clock;
  const auto begun = clock::now();
  const auto problem =
    folder_.complete(std::move(about), parts_, options_.kept, [&] {
      require_writers(progress.step, begun);
      return ended.stop_requested() || clock::now() > begun + longest_wait;
    });
  notes_.erase(notes_.begin(), notes_.upper_bound(progress.step));
  spdlog::info("checkpoint {}", printable(folder_.path_of(progress.step)));
  if (!problem.empty())
    spdlog::warn("the checkpoint is complete, but: {}", problem);
}

/// After a failure: throws that of another process, if it caused this one.
void checkpoint_saver::throw_first_cause(std::int64_t step) {
  using clock = std::chrono::steady_clock;
  for (const auto begun = clock::now();
       job_ && clock::now() < begun + longest_courtesy;
       std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    require_writers(step, begun);
}

/// While parts are missing: throws once they can't come any more.
void checkpoint_saver::require_writers(
  std::int64_t step, std::chrono::steady_clock::time_point begun) {
  if (!job_)
    return;
  const auto others = job_->place().processes - 1;
  for (std::int32_t p = 1; p <= others; ++p)
    while (const auto note = job_->take_note(p)) {
      const auto space = std::min(note->find(' '), note->size() - 1);
      const auto of = parse_number<std::int64_t>(note->substr(0, space));
      notes_[of.value_or(-1)][p] = note->substr(space + 1);
    }
  const auto& told = notes_[step];
  for (const auto& [process, problem] : told)
    if (!problem.empty())
      fail(error_code::io, "process {} could not write its part: {}", process,
           problem);
  if (const auto lost = job_->lost())
    fail(error_code::transport, "its part is missing: {}", *lost);
  if (std::ssize(told) == others
      && std::chrono::steady_clock::now() > begun + longest_delay)
    fail(error_code::io,
         "{}: all processes have written their parts, and some are not there; "
         "was it moved, or do the processes see different folders?",
         printable(options_.folder));
}

void checkpoint_saver::finish() {
  if (writer_.joinable())
    writer_.join();
  if (failure_)
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace troupe::cli
