#include "troupe/engine/cuda/nccl_calls.hpp"

#include <optional>

#include "troupe/base/error.hpp"
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
  switch (how) {
    case reduce_kind::mean:
      return ncclAvg;
    case reduce_kind::max:
      return ncclMax;
    default:
      return ncclSum;
  }
}

bool has_peer(transfer_kind kind) {
  return kind == transfer_kind::send || kind == transfer_kind::receive
         || kind == transfer_kind::broadcast;
}

bool has_input(const transfer& transfer, int rank) {
  return transfer.kind != transfer_kind::receive
         && (transfer.kind != transfer_kind::broadcast
             || transfer.peer == rank);
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

}  // namespace

std::string misfit(const transfer& transfer,
                   const communicator_options& options, int device) {
  if (has_peer(transfer.kind)
      && (transfer.peer < 0 || transfer.peer >= options.size))
    return fmt::format("there is no rank {} among {}", transfer.peer,
                       options.size);
  const auto input = has_input(transfer, options.rank);
  const auto output = transfer.kind != transfer_kind::send;
  std::string why;
  if (input)
    why = misfit_of(transfer.input, "input", device);
  if (output && why.empty())
    why = misfit_of(transfer.output, "output", device);
  if (input && output && why.empty())
    why = misfit_of_pair(transfer, options.size);
  return why;
}

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

}  // namespace troupe
