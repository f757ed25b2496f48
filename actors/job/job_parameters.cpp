#include "troupe/actors/job/job_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

std::vector<held_parameter> read_held(const frame& part, bool values) {
  auto held = from_wire<std::vector<held_parameter>>(part.head);
  if (values && part.tensors.size() != held.size())
    fail(error_code::transport, "a process announced {} parameters but sent {}",
         held.size(), part.tensors.size());
  return held;
}

namespace {

/// Whether files have it: of the first replica and copy, the owner.
template <class Parameter>
bool is_first(const Parameter& each) {
  return each.data_rank == 0 && each.stage.copy == 0 && each.name == each.owner;
}

/// Throws `mismatch` naming the first parameter in which replicas differ.
void require_equal(std::vector<held_parameter> all) {
  std::ranges::stable_sort(all, {}, [](const held_parameter& each) {
    return std::tuple(each.data_rank, each.stage.copy, each.stage.stage);
  });
  std::map<std::string, std::uint64_t> first;  // by owner
  for (const auto& each : all) {
    if (first.emplace(each.owner, each.hash).first->second == each.hash)
      continue;
    if (each.name != each.owner)
      fail(error_code::mismatch,
           "{} has different values in stage {} of replica {} than {}, to "
           "which it is tied",
           each.name, each.stage.stage, each.data_rank, each.owner);
    if (each.stage.copy > 0)
      fail(error_code::mismatch,
           "the copies of stage {} in replica {} hold different values of {}",
           each.stage.stage, each.data_rank, each.name);
    fail(error_code::mismatch, "replicas 0 and {} hold different values of {}",
         each.data_rank, each.name);
  }
}

held_parameter described(const parameter_here& each) {
  return {each.stage, each.data_rank, each.name, each.owner};
}

/// Tensors on their way between the threads that call trainers.
frame in_mail(std::string head, tensor_list tensors) {
  for (auto& tensor : tensors)
    tensor = tensor.detach().to(at::kCPU).contiguous();
  return {frame_type::mail, std::move(head), std::move(tensors)};
}

std::vector<held_parameter> gather_hashes(
  mesh& job, const std::vector<held_parameter>& own) {
  std::vector<held_parameter> all;
  for (const auto& part : job.gather({frame_type::mail, to_wire(own), {}}))
    for (auto& held : read_held(part, false))
      all.push_back(std::move(held));
  return all;
}

/// Throws in all processes what a check says in the leading one, or nothing.
/// All make the check, so that it may gather what it looks at; elsewhere there
/// is nothing to look at.
void require_together(mesh& job, error_code code,
                      const std::function<void()>& check) {
  std::string trouble;
  try {
    check();
  } catch (const error& reason) {
    trouble = reason.what();
  }
  trouble = job.share({frame_type::mail, trouble, {}}).head;
  if (!trouble.empty())
    throw error(code, trouble);
}

}  // namespace

parameter_list gather(mesh& job, const std::vector<parameter_here>& own) {
  std::vector<held_parameter> names;
  tensor_list values;
  for (const auto& each : own) {
    if (!is_first(each))
      continue;
    names.push_back(described(each));
    values.push_back(each.value);
  }
  std::multimap<std::int32_t, std::pair<std::string, at::Tensor>> by_stage;
  for (auto& part : job.gather(in_mail(to_wire(names), values))) {
    const auto held = read_held(part, true);
    for (std::size_t i = 0; i < held.size(); ++i)
      by_stage.emplace(held[i].stage.stage,
                       std::pair(held[i].name, part.tensors[i]));
  }
  parameter_list all;
  for (auto& [stage, named] : by_stage)
    all.push_back(std::move(named));
  return all;
}

std::vector<std::string> names_of_all(mesh* job, std::vector<std::string> own) {
  if (!job)
    return own;
  using names = std::vector<std::string>;
  std::set<std::string> all;
  for (const auto& part : job->gather({frame_type::mail, to_wire(own), {}}))
    for (auto& name : from_wire<names>(part.head))
      all.insert(std::move(name));
  const auto sorted = to_wire(names(all.begin(), all.end()));
  return from_wire<names>(job->share({frame_type::mail, sorted, {}}).head);
}

std::int64_t sum_of(mesh* job, std::int64_t own) {
  if (!job)
    return own;
  std::int64_t total = 0;
  for (const auto& part : job->gather({frame_type::mail, to_wire(own), {}}))
    total += from_wire<std::int64_t>(part.head);
  return from_wire<std::int64_t>(
    job->share({frame_type::mail, to_wire(total), {}}).head);
}

std::int64_t count_parameters(mesh* job,
                              const std::vector<parameter_here>& own) {
  std::int64_t count = 0;
  for (const auto& each : own)
    if (is_first(each))
      count += each.value.numel();
  return sum_of(job, count);
}

void require_equal_replicas(mesh* job, const std::vector<parameter_here>& own) {
  std::vector<held_parameter> hashes;
  for (const auto& each : own) {
    hashes.push_back(described(each));
    hashes.back().hash = content_hash(each.value);
  }
  if (!job)
    return require_equal(std::move(hashes));
  require_together(*job, error_code::mismatch,
                   [&] { require_equal(gather_hashes(*job, hashes)); });
}

void require_same_split(mesh* job, const stage_split& own) {
  if (!job)
    return;
  std::string mine;
  for (const auto& each : own)
    mine +=
      fmt::format("{}{}", mine.empty() ? "" : ",", each.last - each.first);
  const auto all = job->gather({frame_type::mail, mine, {}});
  require_together(*job, error_code::mismatch, [&] {
    for (std::size_t p = 1; p < all.size(); ++p)
      if (all[p].head != mine)
        fail(error_code::mismatch,
             "process {} has {} layers in its stages and process 0 {}; give "
             "all processes the same split",
             p, printable(all[p].head), mine);
  });
}

void require_matching(mesh* job, const std::vector<parameter_here>& own,
                      const parameter_groups& groups) {
  if (groups.empty())
    return;
  std::vector<held_parameter> held;
  for (const auto& each : own)
    if (is_first(each))
      held.push_back(described(each));
  if (job)
    held = gather_hashes(*job, held);
  std::vector<std::string> names;
  for (const auto& each : held)
    names.push_back(each.name);
  if (!job)
    return require_matching(groups, names);
  require_together(*job, error_code::invalid_argument, [&] {
    if (job->place().leads())
      require_matching(groups, names);
  });
}

tensor_list pass_on(mesh* job, tensor_list values, std::int32_t sender,
                    std::int32_t receiver) {
  if (sender == receiver)
    return values;
  const auto here = job->place().process;
  if (here == sender && here != 0)
    job->send(0, in_mail({}, values));
  if (here == 0 && sender != 0)
    values = job->receive(sender).tensors;
  if (here == 0 && receiver != 0)
    job->send(receiver, in_mail({}, values));
  if (here == receiver && here != 0)
    values = job->receive(0).tensors;
  return values;
}

tensor_list share(mesh* job, tensor_list values, std::int32_t sender) {
  values = pass_on(job, std::move(values), sender, 0);
  return job ? job->share(in_mail({}, std::move(values))).tensors : values;
}

/// The values that have the names of these parameters.
parameter_list only(const parameter_list& parameters,
                    const parameter_list& values) {
  std::set<std::string> names;
  for (const auto& [name, value] : parameters)
    names.insert(name);
  parameter_list kept;
  std::ranges::copy_if(values, std::back_inserter(kept), [&](const auto& each) {
    return names.contains(each.first);
  });
  return kept;
}

}  // namespace troupe
