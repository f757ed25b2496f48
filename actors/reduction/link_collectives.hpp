#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "troupe/actors/reduction/collectives.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

/// The members that make collectives together: the instances of a stage or,
/// with `ties`, the stages of one replica and copy that hold tied parameters.
struct collective_group {
  /// The members' processes: by replica, then copy; of ties, by stage.
  std::vector<std::int32_t> owners{};
  gradient_mean mean = 1;  // over replicas
  /// By tie: the stages of its holders, in model order.
  std::vector<std::vector<std::int32_t>> ties{};
  std::int32_t data_rank = 0;  // of ties
  std::int8_t copy = 0;
};

/// Collectives over the links between processes. A reduction cuts the tensors
/// of a member, in a row, into pieces: shards, or as many as there are members.
/// The process of one member reduces a piece of all members and sends the
/// result to those who need it. A gather sends each member's shards to the
/// others of its group; a sum of tied gradients, each holder's gradient to
/// those of the parameter's other holders, which add them in model order. The
/// bits are those of one process. Tensors are on the CPU, those of a reduction
/// or gather of one dtype.
class link_collectives final : public collectives {
 public:
  using sender =
    std::function<void(std::int32_t process, collective_part part)>;

  /// `process`: this one.
  link_collectives(collective_group group, std::int32_t process, sender send);

  bool run(std::int64_t call,
           std::vector<collective_request>& members) override;
  bool on(collective_part part) override;

 private:
  struct holder {
    std::int32_t tie = 0;
    std::int32_t stage = 0;
  };
  /// The state of the running call, or of the next one, which other processes
  /// may have begun.
  struct call_state {
    std::optional<collective_kind> kind;  // unknown before the first part
    /// The parts of each member, by piece.
    std::map<std::int32_t, std::vector<collective_part>> parts;
    std::map<std::int32_t, collective_part> results;  // by piece
  };

  std::int32_t owner(std::int32_t member) const {
    return owners_.at(static_cast<std::size_t>(member));
  }
  std::int32_t count() const {
    return static_cast<std::int32_t>(owners_.size());
  }
  std::int32_t data_rank(std::int32_t member) const { return member / copies_; }
  std::int32_t member_of(const collective_request& request) const {
    return request.data_rank * copies_ + request.owner.copy;
  }
  std::int32_t reducer(collective_kind kind, std::int32_t piece) const;
  std::set<std::int32_t> readers(collective_kind kind,
                                 std::int32_t piece) const;
  bool needs(collective_kind kind, std::int32_t piece) const;
  void require_legal(const collective_part& part) const;
  void require_same(std::int64_t call, std::int32_t stage, collective_kind here,
                    collective_kind there) const;
  collective_part part_of(const collective_request& from, std::int32_t piece,
                          const reduction& work) const;
  void give_piece(collective_part part);
  void give(const collective_request& from, const all_reduce& work);
  void give(const collective_request& from, const reduce_scatter& work);
  void give(const collective_request& from, const all_gather& work);
  void give(const collective_request& from, const tied_sum& work);
  void hand_out(collective_part result);
  void add(collective_part part);
  collective_part reduced(std::vector<collective_part> parts) const;
  void put(collective_part result);
  bool finish();
  using results = std::map<std::int32_t, collective_part>;
  void take(const collective_request& member, all_reduce& into,
            const results& from) const;
  void take(const collective_request& member, reduce_scatter& into,
            const results& from) const;
  void take(const collective_request& member, all_gather& into,
            const results& from) const;
  void take(const collective_request& member, tied_sum& into,
            const results& from) const;

  collective_group group_;
  std::vector<std::int32_t> owners_;  // by member; of tied ones, by holder
  std::vector<holder> holders_;       // by tie, then in model order
  std::int32_t copies_;
  std::int32_t process_;
  sender send_;
  std::int32_t shards_ = 1;  // of the running call
  std::int64_t call_ = -1;   // the running one, or the last
  std::vector<collective_request>* members_ = nullptr;  // null: none runs
  std::map<std::int64_t, call_state> calls_;
};

}  // namespace troupe
