#include "troupe/engine/device/communicator.hpp"

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {
namespace {

const char* name_of(transfer_kind kind) {
  switch (kind) {
    case transfer_kind::send:
      return "send";
    case transfer_kind::receive:
      return "receive";
    case transfer_kind::broadcast:
      return "broadcast";
    case transfer_kind::reduce:
      return "reduce";
    case transfer_kind::all_reduce:
      return "all-reduce";
    case transfer_kind::all_gather:
      return "all-gather";
    case transfer_kind::reduce_scatter:
      return "reduce-scatter";
  }
  fail(error_code::internal, "not a kind of transfer");
}

std::string peer_of(const transfer& transfer) {
  switch (transfer.kind) {
    case transfer_kind::send:
    case transfer_kind::reduce:
      return fmt::format(" to {}", transfer.peer);
    case transfer_kind::receive:
    case transfer_kind::broadcast:
      return fmt::format(" from {}", transfer.peer);
    default:
      return {};
  }
}

}  // namespace

std::string describe(const transfer& transfer) {
  const auto& tensor =
    transfer.input.defined() ? transfer.input : transfer.output;
  const auto text = fmt::format("{} of {}{}", name_of(transfer.kind),
                                describe(tensor), peer_of(transfer));
  return transfer.name.empty() ? text
                               : fmt::format("{} ({})", text, transfer.name);
}

}  // namespace troupe
