#include "troupe/engine/cuda/nccl_group.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/nccl_communicator.hpp"

namespace troupe {
namespace {

thread_local nccl_group* group_of_thread = nullptr;

}  // namespace

nccl_group::nccl_group() {
  if (group_of_thread)
    fail(error_code::internal, "a group of transfers within another");
  check(ncclGroupStart(), "beginning a group of transfers");
  group_of_thread = this;
}

nccl_group::~nccl_group() {
  if (group_of_thread != this)
    return;
  group_of_thread = nullptr;
  ncclGroupEnd();
}

nccl_group* nccl_group::current() {
  return group_of_thread;
}

void nccl_group::add(nccl_communicator& communicator, std::string call) {
  const auto known =
    std::ranges::find(members_, &communicator, &member::communicator);
  if (known == members_.end())
    members_.push_back({&communicator, std::move(call)});
  else
    known->last_call = std::move(call);
}

void nccl_group::end() {
  group_of_thread = nullptr;
  check(ncclGroupEnd(), members_.empty() ? "a group of transfers"
                                         : "a group of transfers up to "
                                             + members_.back().last_call);
  for (const auto& [communicator, call] : members_)
    communicator->settle(call);
}

}  // namespace troupe
