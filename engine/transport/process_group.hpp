#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/device/communicator.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// What a member calls, as the others check it.
struct collective_call {
  std::uint64_t serial = 0;
  transfer_kind kind = transfer_kind::all_gather;
  reduce_kind how = reduce_kind::sum;
  std::int32_t root = 0;  // of a broadcast
  std::vector<std::int32_t> members{};
  tensor_form given{};  // of a broadcast: the root's

  bool operator==(const collective_call&) const = default;
};

/// Of the head of another member's frame. Throws `transport`.
collective_call read_collective(std::string_view head);
std::string to_text(const collective_call& call);

/// Collectives over some processes of a job, on the links between them, for
/// tensors of the CPU; on GPUs a `communicator` has them. A call returns when
/// its result is there. Results are tensors of their own, and have the dtype of
/// what was given, which may be changed once a call has returned.
///
/// All members make the same calls in the same order, from one thread each,
/// also across groups. Reductions have the same bits in all members, and those
/// of adding one member's tensor after the other: the owner of a piece does so.
/// Throws `mismatch` where members call differently, naming both calls;
/// `transport` when a member is gone. A group is of no use after that.
class process_group {
 public:
  /// Members: processes of the job, ascending, this one among them; else
  /// `invalid_argument`. The mesh has been started, and outlives the group.
  process_group(mesh& job, std::vector<std::int32_t> members);

  /// This process's place among the members.
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
  /// What the member of rank `root` gives; what others give is not looked at.
  at::Tensor broadcast(const at::Tensor& given, std::int32_t root);

 private:
  void begin(transfer_kind kind, const at::Tensor& given,
             reduce_kind how = reduce_kind::sum, std::int32_t root = 0);
  void send(std::int32_t to, const at::Tensor& piece);
  /// Of these sizes, if there are any.
  at::Tensor take(std::int32_t from, const at::Tensor& like);
  /// Piece r of `mine` goes to rank r; the reduction of those that came here.
  at::Tensor reduce(const std::vector<at::Tensor>& pieces);

  mesh& job_;
  std::vector<std::int32_t> members_;
  std::int32_t rank_ = 0;
  collective_call call_;
};

}  // namespace troupe
