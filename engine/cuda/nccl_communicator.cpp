#include "troupe/engine/cuda/nccl_communicator.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "troupe/base/error.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/nccl_calls.hpp"
#include "troupe/engine/cuda/stream.hpp"

namespace troupe {
namespace {

thread_local nccl_group* group_of_thread = nullptr;

using clock_type = std::chrono::steady_clock;

ncclUniqueId unpacked(const communicator_options& options) {
  ncclUniqueId id;
  if (options.id.size() != sizeof id)
    fail(error_code::invalid_argument,
         "{}: the id of a communicator has {} bytes, not {}", options.name,
         sizeof id, options.id.size());
  std::memcpy(&id, options.id.data(), sizeof id);
  return id;
}

/// Most calls are accepted at once; those that connect to a peer take longer.
void rest(clock_type::time_point begin) {
  if (clock_type::now() - begin < std::chrono::milliseconds{1})
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds{200});
}

}  // namespace

communicator_id make_nccl_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "making the id of a communicator");
  communicator_id bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

nccl_communicator::nccl_communicator(int device, communicator_options options)
  : device_{device}, options_{std::move(options)} {
  const auto id = unpacked(options_);
  const c10::cuda::CUDAGuard guard{static_cast<c10::DeviceIndex>(device_)};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = options_.name.c_str();
  const auto call =
    fmt::format("joining as {} of {}", options_.rank, options_.size);
  ncclComm_t made = nullptr;
  const auto begun =
    ncclCommInitRankConfig(&made, options_.size, id, options_.rank, &config);
  handle_ = made;
  check(begun, named(call));
  try {
    settle(call);
  } catch (...) {
    abort();
    throw;
  }
}

std::string nccl_communicator::named(const std::string& call) const {
  return fmt::format("{}: {}", options_.name, call);
}

ncclResult_t nccl_communicator::state() const {
  auto state = ncclInternalError;
  const auto asked = ncclCommGetAsyncError(handle_, &state);
  return asked == ncclSuccess ? state : asked;
}

void nccl_communicator::fail_with(ncclResult_t result,
                                  const std::string& call) {
  const std::string details = ncclGetLastError(handle_);
  fail(error_code::transport, "{}: NCCL: {}{}{}", named(call),
       ncclGetErrorString(result), details.empty() ? "" : ": ", details);
}

void nccl_communicator::require_alive() const {
  if (!handle_)
    fail(error_code::transport, "{} has ended", options_.name);
}

void nccl_communicator::settle(const std::string& call) {
  const auto begin = clock_type::now();
  const std::chrono::duration<double> time_out{options_.time_out};
  for (auto now = state(); now != ncclSuccess; now = state()) {
    require_alive();
    if (now != ncclInProgress)
      fail_with(now, call);
    if (options_.cancelled && options_.cancelled())
      fail(error_code::transport, "{}: the run has ended", named(call));
    if (clock_type::now() - begin > time_out)
      fail(error_code::transport,
           "{}: not accepted within {:.0f} s: a peer is missing, or makes "
           "another call",
           named(call), options_.time_out);
    rest(begin);
  }
}

void nccl_communicator::enqueue(const transfer& transfer,
                                device_stream& stream) {
  require_alive();
  const auto call = describe(transfer);
  if (const auto why = misfit(transfer, options_, device_); !why.empty())
    fail(error_code::invalid_argument, "{}: {}", named(call), why);
  const c10::cuda::CUDAGuard guard{static_cast<c10::DeviceIndex>(device_)};
  auto& queue = static_cast<cuda_stream&>(stream);
  stream.uses(transfer.input);
  stream.uses(transfer.output);
  const auto result = call_nccl(transfer, handle_, queue.get());
  if (result != ncclSuccess && result != ncclInProgress)
    fail_with(result, call);
  if (auto* group = nccl_group::current())
    group->add(*this, call);
  else if (result == ncclInProgress)
    settle(call);
}

std::string nccl_communicator::problem() {
  if (!handle_)
    return fmt::format("{} has ended", options_.name);
  const auto now = state();
  if (now == ncclSuccess || now == ncclInProgress)
    return {};
  return fmt::format("{}: NCCL: {}: {}", options_.name, ncclGetErrorString(now),
                     ncclGetLastError(handle_));
}

void nccl_communicator::abort() noexcept {
  if (const auto handle = handle_.exchange(nullptr))
    ncclCommAbort(handle);
}

void nccl_communicator::finish() {
  require_alive();
  const c10::cuda::CUDAGuard guard{static_cast<c10::DeviceIndex>(device_)};
  check(ncclCommFinalize(handle_), named("ending"));
  settle("ending");
  check(ncclCommDestroy(handle_.exchange(nullptr)), named("ending"));
}

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
