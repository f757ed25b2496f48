#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "troupe/actors/reduction/collectives.hpp"

namespace troupe {

/// The stages of one replica and copy that hold tied parameters.
struct tied_group {
  std::int32_t data_rank = 0;
  std::int8_t copy = 0;
  /// By tie: the stages of its holders, in model order.
  std::vector<std::vector<std::int32_t>> stages{};
  std::vector<std::int32_t> owners{};  // by stage: its process
};

/// Sums of tied gradients over the links between processes: each holder's
/// gradient is sent to the processes of the parameter's other holders, which
/// add them in model order. The bits are those of one process. Tensors are on
/// the CPU.
class tied_links final : public collectives {
 public:
  using sender =
    std::function<void(std::int32_t process, collective_part part)>;

  tied_links(tied_group group, std::int32_t process, sender send);

  bool spans_processes() const override { return true; }
  bool run(std::int64_t call,
           std::vector<collective_request>& members) override;
  bool on(collective_part part) override;

 private:
  struct holder {
    std::int32_t tie = 0;
    std::int32_t stage = 0;
  };
  std::int32_t owner(const holder& of) const {
    return group_.owners.at(static_cast<std::size_t>(of.stage));
  }
  void give(const collective_request& from);
  void put(const collective_part& part);
  bool has_all(const collective_request& member) const;
  void take_sums(collective_request& into) const;
  bool finish();

  tied_group group_;
  std::int32_t process_;
  sender send_;
  std::vector<holder> holders_;  // by tie, then in model order
  std::int64_t call_ = -1;       // the running one, or the last
  std::vector<collective_request>* members_ = nullptr;  // null: none runs
  /// By call, then holder; of other processes perhaps of the next call.
  std::map<std::int64_t, std::map<std::int32_t, at::Tensor>> parts_;
};

}  // namespace troupe
