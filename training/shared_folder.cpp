#include "troupe/training/shared_folder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/folder_marker.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// "process 1 (/data/run on head)"
std::string place_text(const std::shared_ptr<mesh>& job,
                       const std::string& path) {
  std::error_code trouble;
  return fmt::format("process {} ({} on {})", job->place().process,
                     printable(fs::absolute(path, trouble).string()),
                     host_name());
}

/// Returns, in all processes, which of them does not find the leader's file
/// with this content in its own folder; empty if all do.
std::string blind_process(const std::shared_ptr<mesh>& job,
                          const std::string& folder,
                          const std::string& leaders_file,
                          const std::string& leaders_content,
                          std::chrono::milliseconds longest) {
  const auto name = shared_text(job, leaders_file);
  const auto content = shared_text(job, leaders_content);
  const bool sees =
    leads_job(job)
    || is_seen((fs::path(folder) / name).string(), content, longest);
  auto text = sees ? std::string{} : place_text(job, folder);
  std::string first;
  for (const auto& report : job->gather({frame_type::mail, std::move(text)}))
    if (first.empty())
      first = report.head;
  return shared_text(job, std::move(first));
}

}  // namespace

void require_shared_folder(const std::string& folder,
                           const std::shared_ptr<mesh>& job,
                           const checkpoint_words& words,
                           std::chrono::milliseconds longest) {
  if (!job || folder.empty())
    return;
  std::optional<folder_marker> marker;
  if (leads_job(job))
    marker.emplace(folder);
  const auto process = blind_process(job, folder, marker ? marker->name() : "",
                                     marker ? marker->content() : "", longest);
  const auto leader = shared_text(job, place_text(job, folder));
  if (!process.empty())
    fail(error_code::io,
         "{} {}: {} does not see the folder of {}: all processes write to one "
         "folder; give the absolute path of one that their machines share, by "
         "NFS, say",
         words.folder, printable(folder), process, leader);
}

void require_same_checkpoint(const std::string& checkpoint,
                             const std::shared_ptr<mesh>& job,
                             const checkpoint_words& words,
                             std::chrono::milliseconds longest) {
  if (!job)
    return;
  const std::string name(manifest_name);
  const auto content =
    leads_job(job) ? read_file((fs::path(checkpoint) / name).string()) : "";
  const auto process = blind_process(job, checkpoint, name, content, longest);
  if (!process.empty())
    fail(error_code::io,
         "{} {}: {} does not see that checkpoint: all processes read it; give "
         "one in a folder that their machines share, or copy it to this path "
         "on each",
         words.resume, printable(checkpoint), process);
}

}  // namespace troupe
