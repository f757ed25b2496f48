#include "troupe/engine/cuda/nccl_communicator.hpp"

#include <c10/cuda/CUDAGuard.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "troupe/base/fail.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/stream.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {
namespace {

std::optional<ncclDataType_t> type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kLong:
      return ncclInt64;
    case at::kInt:
      return ncclInt32;
    case at::kChar:
      return ncclInt8;
    case at::kByte:
    case at::kBool:
      return ncclUint8;
    default:
      return {};
  }
}

ncclRedOp_t operation_of(reduce_kind how) {
  return how == reduce_kind::mean ? ncclAvg : ncclSum;
}

bool has_peer(transfer_kind kind) {
  return kind == transfer_kind::send || kind == transfer_kind::receive
         || kind == transfer_kind::broadcast || kind == transfer_kind::reduce;
}

bool has_input(const transfer& transfer, int rank) {
  return transfer.kind != transfer_kind::receive
         && (transfer.kind != transfer_kind::broadcast
             || transfer.peer == rank);
}

bool has_output(const transfer& transfer, int rank) {
  return transfer.kind != transfer_kind::send
         && (transfer.kind != transfer_kind::reduce || transfer.peer == rank);
}

std::string misfit_of(const at::Tensor& tensor, const char* name, int device) {
  if (!tensor.defined())
    return fmt::format("there is no {}", name);
  if (!tensor.is_cuda() || tensor.get_device() != device)
    return fmt::format("the {} is on {}, not on cuda:{}", name,
                       tensor.device().str(), device);
  if (!tensor.is_contiguous() || !type_of(tensor.scalar_type()))
    return fmt::format(
      "the {} is not contiguous, or of a dtype that NCCL does not support: {}",
      name, describe(tensor));
  return {};
}

/// The ratio of the output's elements to the input's, as two factors.
std::pair<std::int64_t, std::int64_t> ratio(transfer_kind kind, int size) {
  if (kind == transfer_kind::all_gather)
    return {size, 1};
  if (kind == transfer_kind::reduce_scatter)
    return {1, size};
  return {1, 1};
}

std::string misfit_of_pair(const transfer& transfer, int size) {
  const auto [more, fewer] = ratio(transfer.kind, size);
  const auto &input = transfer.input, &output = transfer.output;
  if (input.scalar_type() == output.scalar_type()
      && input.numel() * more == output.numel() * fewer)
    return {};
  return fmt::format("the output, {}, does not fit {} ranks", describe(output),
                     size);
}

/// The tensor whose elements the call counts.
const at::Tensor& counted(const transfer& transfer) {
  switch (transfer.kind) {
    case transfer_kind::receive:
    case transfer_kind::broadcast:
    case transfer_kind::reduce_scatter:
      return transfer.output;
    default:
      return transfer.input;
  }
}

/// Why a transfer's tensors or peer do not fit such a communicator; empty if
/// they do. NCCL itself would access memory beyond a tensor's end.
std::string misfit(const transfer& transfer,
                   const communicator_options& options, int device) {
  if (has_peer(transfer.kind)
      && (transfer.peer < 0 || transfer.peer >= options.size))
    return fmt::format("there is no rank {} among {}", transfer.peer,
                       options.size);
  const auto input = has_input(transfer, options.rank);
  const auto output = has_output(transfer, options.rank);
  std::string why;
  if (input)
    why = misfit_of(transfer.input, "input", device);
  if (output && why.empty())
    why = misfit_of(transfer.output, "output", device);
  if (input && output && why.empty())
    why = misfit_of_pair(transfer, options.size);
  return why;
}

/// Makes NCCL's call for a transfer, which must fit.
ncclResult_t call_nccl(const transfer& transfer, ncclComm_t communicator,
                       cudaStream_t stream) {
  const auto& any = counted(transfer);
  const auto type = type_of(any.scalar_type()).value();
  const auto how = operation_of(transfer.how);
  const auto count = static_cast<std::size_t>(any.numel());
  const void* input =
    transfer.input.defined() ? transfer.input.const_data_ptr() : nullptr;
  void* output =
    transfer.output.defined() ? transfer.output.mutable_data_ptr() : nullptr;
  switch (transfer.kind) {
    case transfer_kind::send:
      return ncclSend(input, count, type, transfer.peer, communicator, stream);
    case transfer_kind::receive:
      return ncclRecv(output, count, type, transfer.peer, communicator, stream);
    case transfer_kind::broadcast:
      return ncclBroadcast(input, output, count, type, transfer.peer,
                           communicator, stream);
    case transfer_kind::reduce:
      return ncclReduce(input, output, count, type, how, transfer.peer,
                        communicator, stream);
    case transfer_kind::all_reduce:
      return ncclAllReduce(input, output, count, type, how, communicator,
                           stream);
    case transfer_kind::all_gather:
      return ncclAllGather(input, output, count, type, communicator, stream);
    case transfer_kind::reduce_scatter:
      return ncclReduceScatter(input, output, count, type, how, communicator,
                               stream);
  }
  fail(error_code::internal, "not a kind of transfer");
}

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

/// Why joining may have failed, if the machine's shared memory is small, as in
/// containers; NCCL's own errors do not tell.
std::string about_shared_memory() {
  constexpr std::uint64_t enough = 256 << 20;
  struct statvfs of = {};
  if (::statvfs("/dev/shm", &of) != 0 || of.f_frsize * of.f_blocks >= enough)
    return {};
  return fmt::format(
    "; /dev/shm has {} MiB, and NCCL needs some tens per process: give the "
    "container more, as by --shm-size=1g",
    of.f_frsize * of.f_blocks >> 20);
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
  const c10::cuda::CUDAGuard guard{index_of(device_)};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = options_.name.c_str();
  const auto call =
    fmt::format("joining as {} of {}", options_.rank, options_.size);
  ncclComm_t new_handle = nullptr;
  const auto begun = ncclCommInitRankConfig(&new_handle, options_.size, id,
                                            options_.rank, &config);
  handle_ = new_handle;
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
  fail(error_code::transport, "{}: NCCL: {}{}{}{}", named(call),
       ncclGetErrorString(result), details.empty() ? "" : ": ", details,
       call.starts_with("joining") ? about_shared_memory() : "");
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

void nccl_communicator::enqueue(std::span<const transfer> together,
                                device_stream& stream) {
  require_alive();
  for (const auto& each : together)
    if (const auto why = misfit(each, options_, device_); !why.empty())
      fail(error_code::invalid_argument, "{}: {}", named(describe(each)), why);
  const c10::cuda::CUDAGuard guard{index_of(device_)};
  auto& queue = static_cast<cuda_stream&>(stream);
  for (const auto& each : together) {
    stream.uses(each.input);
    stream.uses(each.output);
  }
  const bool is_group = together.size() > 1;
  if (is_group)
    check(ncclGroupStart(), named("beginning a group of transfers"));
  auto result = ncclSuccess;
  const transfer* last = nullptr;
  for (const auto& each : together)
    if (result == ncclSuccess || result == ncclInProgress)
      result = call_nccl(*(last = &each), handle_, queue.get());
  if (const auto ended = is_group ? ncclGroupEnd() : ncclSuccess;
      ended != ncclSuccess)
    result = ended;
  if (!last)
    return;
  const auto call = describe(*last);
  if (result != ncclSuccess && result != ncclInProgress)
    fail_with(result, call);
  if (is_group || result == ncclInProgress)
    settle(call);
}

void nccl_communicator::abort() noexcept {
  if (const auto handle = handle_.exchange(nullptr))
    ncclCommAbort(handle);
}

}  // namespace troupe
