#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/device/communicator.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

template <>
inline constexpr auto largest_value<transfer_kind> =
  transfer_kind::reduce_scatter;
template <>
inline constexpr auto largest_value<reduce_kind> = reduce_kind::max;

/// A member's call, for the others to check.
struct collective_call {
  std::uint64_t serial = 0;
  transfer_kind kind = transfer_kind::all_gather;
  reduce_kind how = reduce_kind::sum;
  std::int32_t root = 0;  // of a broadcast
  std::vector<std::int32_t> members{};
  tensor_form given{};  // of a broadcast: the root's

  bool operator==(const collective_call&) const = default;
};
TROUPE_FIELDS(collective_call, serial, kind, how, root, members, given)

std::string to_text(const collective_call& call);

/// Collectives over some processes of a job, on the links between them, for CPU
/// tensors; for GPUs, see `communicator`. A call returns when its result is
/// ready. Results are new tensors, with the dtype of the input, which may be
/// changed once a call has returned.
///
/// All members make the same calls in the same order, from one thread each,
/// also across groups. Reductions have the same bits in all members: those of
/// adding the members' tensors one after the other, which each piece's owner
/// does. Throws `mismatch`, naming both calls, if members' calls differ;
/// `transport` if a member is lost. The group is unusable after that.
class process_group {
 public:
  /// `members`: processes of the job, ascending, including this one; otherwise
  /// throws `invalid_argument`. The mesh must outlive the group, and must be
  /// started before its first collective, which throws otherwise.
  process_group(mesh& job, std::vector<std::int32_t> members);

  /// This process's index among the members.
  std::int32_t rank() const { return rank_; }
  std::int32_t size() const {
    return static_cast<std::int32_t>(members_.size());
  }

  /// [n, ...] of each member; [size * n, ...], by member.
  at::Tensor all_gather(const at::Tensor& mine);
  /// [size * n, ...] of each member; this one's [n, ...] of the result.
  at::Tensor reduce_scatter(const at::Tensor& mine,
                            reduce_kind how = reduce_kind::sum);
  /// Any shape, the same everywhere.
  at::Tensor all_reduce(const at::Tensor& mine,
                        reduce_kind how = reduce_kind::sum);
  /// Returns the tensor that member `root` gives; other inputs are ignored.
  at::Tensor broadcast(const at::Tensor& given, std::int32_t root);

 private:
  void begin(transfer_kind kind, const at::Tensor& given,
             reduce_kind how = reduce_kind::sum, std::int32_t root = 0);
  void send(std::int32_t receiver, const at::Tensor& piece);
  /// Receives a tensor of the sizes and dtype of `like`, if that is defined.
  at::Tensor take(std::int32_t sender, const at::Tensor& like);
  /// Sends the own part to all; returns those of all ranks, which are of the
  /// sizes of `like`, joined.
  at::Tensor gathered(const at::Tensor& own,
                      const std::vector<at::Tensor>& like);
  /// Sends piece r of `mine` to rank r; returns the reduction of those
  /// received.
  at::Tensor reduce(const std::vector<at::Tensor>& pieces);

  mesh& job_;
  std::vector<std::int32_t> members_;
  std::int32_t rank_ = 0;
  collective_call call_;
};

}  // namespace troupe
