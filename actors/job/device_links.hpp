#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/job/run_devices.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/device/communicator_watch.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/shard_layout.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// How tensors get from devices of this process to those of others without
/// the host: a communicator for each direction between two stages of an edge
/// that live in different processes, one for the group of a stage: its
/// copies in all replicas, one for those that hold the shards of a copy, where
/// they are not the whole group, and one for the stages of a replica and copy
/// that hold tied parameters. A message over the links of the host announces
/// each send; the receiver makes the matching call once that has arrived, so
/// that both ends make the same calls in the same order, of sizes that
/// were checked.
///
/// Calls for a stage come from the actors of its rank, in turn. `abort` and
/// `stuck` may come from any thread.
class device_links {
 public:
  /// `edges`: between stages of different ranks, both ways. `ties`: by tied
  /// parameter the stages that hold it. `shards`: replicas that share those of
  /// a stage; 1: none do. Throws `invalid_argument` if ties are of different
  /// stages and processes.
  device_links(job_layout layout, placement stages,
               std::vector<stage_edge> edges,
               const std::vector<std::vector<std::int32_t>>& ties,
               std::int32_t shards, run_devices devices, gradient_mean mean,
               double stall_seconds);

  /// All processes of the job call it at once; waits until all communicators
  /// are made and have moved something, or the run has ended. Throws
  /// `invalid_argument` where a process holds several members of a group.
  void connect(mesh& job);
  /// A communicator has one rank in each process. Throws `invalid_argument` for
  /// a layout that would need more.
  void require_one_member_each() const;

  /// Sends tensors behind what made them at `ready`; `header` tells from where
  /// to where.
  void send(const envelope& header, const tensor_list& tensors,
            const event_handle& ready, const std::string& op);
  /// Tensors of the forms that were announced, there at `ready`.
  tensor_list receive(const envelope& announced, const std::string& op,
                      event_handle& ready);
  /// Replaces gradients by their mean over the group of a stage, on the stage's
  /// stream for reductions.
  void all_reduce(std::int32_t stage, tensor_list& gradients);
  /// The shard of this process's member of the mean of rows over the group of
  /// a stage. Any group of shards that is not the stage's whole group adds the
  /// whole rows.
  at::Tensor reduce_scatter(std::int32_t stage, std::int32_t data_rank,
                            const at::Tensor& row, const shard_layout& layout);
  device_stream& reduction_stream(std::int32_t stage);
  /// Fills a row with the shards of the group of a member, on the stream of
  /// gathers.
  void all_gather(std::int32_t stage, std::int32_t data_rank, std::int8_t copy,
                  const at::Tensor& own, const at::Tensor& into,
                  const shard_layout& layout);
  device_stream& gather_stream(std::int32_t stage, std::int32_t data_rank,
                               std::int8_t copy);
  /// Whether the group of a stage lives in several processes.
  bool reduces(std::int32_t stage) const;
  /// Replaces gradients of the stages that hold tied parameters by their sum,
  /// of 16 bits in fp32. Each process gathers all gradients, and adds them by
  /// ascending stage, as a reduction may add in any order.
  void sum_tied(std::int32_t data_rank, std::int8_t copy,
                tensor_list& gradients);
  device_stream& tied_stream(std::int32_t data_rank, std::int8_t copy);
  bool sums_tied(std::int32_t data_rank, std::int8_t copy) const;

  /// Ends all calls in flight, so that nobody waits for a rank that is gone.
  void abort() noexcept;
  /// Calls that have waited for longer than they should, in words.
  std::vector<std::string> stuck();

 private:
  /// A link from a stage to another, or (`sender` is `receiver`) the group of a
  /// stage, or of its shards from a data rank on; of no stage: of those that
  /// hold tied parameters.
  struct key {
    std::int32_t data_rank = 0;
    std::int8_t copy = 0;
    std::int32_t sender = 0;
    std::int32_t receiver = 0;
    bool shares = false;  // shards

    bool is_group() const { return sender == receiver; }
    bool is_tied() const { return sender == none; }
    friend auto operator<=>(const key&, const key&) = default;
  };
  struct member {
    std::int32_t data_rank = 0;
    stage_instance stage;
  };
  struct link {
    std::string name;
    std::unique_ptr<communicator> calls;
    /// Each edge has its own: a send blocks its stream until it is received, so
    /// that two edges on one stream could wait for each other.
    std::unique_ptr<device_stream> stream;
    communicator_watch watch;
    std::timed_mutex mutex = {};  // a call may take its time on the host
  };

  static std::string in_words(const key& group);
  key gather_key(std::int32_t stage, std::int32_t data_rank,
                 std::int8_t copy) const;
  bool shards_are_groups() const {
    return shards_ == layout_.data_ranks && stages_.copies() == 1;
  }
  static key tied_key(std::int32_t data_rank, std::int8_t copy) {
    return {data_rank, copy, none, none};
  }
  std::vector<key> all_groups() const;
  std::vector<key> all_links() const;
  void add_up(link& on, at::Tensor& values, const std::string& op);
  communicator_options options_of(const key& link_key,
                                  communicator_id id) const;
  /// The members in the order of the communicator's ranks.
  std::vector<member> members_of(const key& link_key) const;
  std::int32_t process_of(const member& one) const;
  bool is_here(const member& one) const {
    return process_of(one) == layout_.process;
  }
  bool spans_processes(const std::vector<member>& members) const;
  /// The communicator's rank that this process has; none: it takes no part.
  std::int32_t own_rank(const key& link_key) const;
  rank_device& device_of(const member& one) const;
  link& at(const key& link_key);
  void enqueue(link& on, const transfer& what) { enqueue(on, {&what, 1}); }
  void enqueue(link& on, std::span<const transfer> together);
  void try_out(const key& link_key);

  job_layout layout_;
  placement stages_;
  std::vector<stage_edge> edges_;
  std::vector<std::int32_t> tied_;  // stages
  std::int32_t shards_;
  run_devices devices_;
  gradient_mean mean_;
  double stall_seconds_;
  std::atomic<bool> ended_ = false;
  std::mutex opening_;  // guards links_ until all are open
  std::map<key, std::unique_ptr<link>> links_;
};

}  // namespace troupe
