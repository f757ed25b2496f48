#include "troupe/engine/launch/authority/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/engine/launch/rendezvous_messages.hpp"

namespace troupe {

std::string objection_to_process(const membership_request& about,
                                 std::int32_t processes,
                                 const membership_request* first) {
  if (about.process < -1 || about.process >= processes)
    return fmt::format("there is no process {} in a job of {}", about.process,
                       processes);
  if (first == nullptr)
    return {};
  const auto differs =
    difference(first->description, about.description, "here", "the job");
  if (!differs.empty())
    return differs + "; start it with the flags of the job";
  return about.shape == first->shape
           ? ""
           : "it has other ranks than the job's first process";
}

std::string objection_to_hosting(const membership_request& about,
                                 std::int32_t processes) {
  if (about.process < 0)
    return "the job has not begun";
  const auto& shape = about.shape;
  const bool fits = shape.pipeline_ranks >= 1 && shape.replicas >= 1
                    && std::cmp_equal(about.hosting.size(), shape.ranks())
                    && std::ranges::all_of(about.hosting, [&](auto host) {
                         return host >= 0 && host < processes;
                       });
  return fits ? "" : "its hosting does not fit its ranks";
}

std::string objection_to_record(const membership_request& about,
                                const membership::job_record& record) {
  if (!record.stop_reason.empty())
    return fmt::format(
      "the job of the authority's record was stopped: {}; remove the record to "
      "begin another one",
      record.stop_reason);
  const auto ranks = record.epoch.hosting.size();
  if (std::cmp_equal(ranks, about.shape.ranks()))
    return {};
  return fmt::format(
    "the authority's record is of a job of {} ranks, and this one has {}; "
    "remove the record to begin another one",
    ranks, about.shape.ranks());
}

}  // namespace troupe
