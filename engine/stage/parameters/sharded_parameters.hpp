#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/collective_work.hpp"
#include "troupe/engine/stage/parameters/module_parameters.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"

namespace troupe {

/// Which shard of a stage's parameters a member holds.
struct shard_place {
  std::int32_t shard = 0;
  std::int32_t shards = 1;
  std::int64_t multiple = 128;  // see shard_layout
  /// The plan's releases free the whole parameters; otherwise gradients and the
  /// optimizer's state alone are sharded.
  bool releases = true;
};

/// The parameters of a stage, of which each replica holds, updates and keeps
/// optimizer state for a shard (ZeRO; XLA's fully sharded data parallel).
/// Parameters lie in rows of memory, which a gather fills and a release frees;
/// graphs of LibTorch refer to a row's storage, so a backward reads what was
/// gathered last. Most parameters are in the first row. Those whose update
/// reads them whole (`work_of_whole`) are in a second row, where each is in one
/// shard, as in Moonlight's distributed Muon (Liu et al., 2025), but without a
/// gather of gradients. A tied parameter has a row of its own, so that a shard
/// is the same part of it in all stages that hold it; the frozen parameters
/// have the last row. `parameters` lists the trained ones by row. The optimizer
/// updates the pieces of the shard. Threads as `stage_parameters`.
class sharded_parameters final : public module_parameters {
 public:
  /// Cuts the shards from the parameters' values, and frees those if the plan
  /// releases. `trained` and `frozen`: in model order; `tied`: among `trained`,
  /// as for module_parameters. Throws `invalid_argument` for a parameter of
  /// another dtype than the first, and for one that is not floating point.
  /// `casts`: of the parameters, which a gather and a release clear; or null.
  sharded_parameters(const parameter_list& trained,
                     const parameter_list& frozen,
                     const std::vector<tied_gradient>& tied,
                     const numerics& options, shard_place place,
                     std::shared_ptr<rank_device> device,
                     std::function<void()> publish,
                     weight_casts::pointer casts = {});

  /// `gradients`: of the shard's pieces. `present`: by parameter after a
  /// reduction, by piece after a sum of tied gradients.
  void put_gradients(tensor_list gradients, at::Tensor present) override;
  collective_work begin_reduction() override;
  tied_sum begin_tied_sum() override;
  std::vector<double> norm_powers() override;
  std::string name_of_power(std::size_t place) const override {
    return names_.at(place);
  }
  /// `whole`: the state of whole parameters. `state` returns that of the shard,
  /// in which tensors as large as a parameter that may be cut have one
  /// dimension.
  void load_state(const optimizer_state& whole) override;
  /// `own`: the state of the shard, as `state` returns it.
  void load_own_state(const optimizer_state& own) {
    module_parameters::load_state(own);
  }
  /// The pieces of the shard, for `publish`. The first member also has the
  /// parameters that all members hold completely.
  std::vector<parameter_part> parts() const;

  const shard_place& place() const { return place_; }
  /// The layouts of the rows of trained parameters.
  const row_layouts& layouts() const { return layouts_; }
  /// The bytes of all parameters.
  std::int64_t bytes() const;

  /// The member's shard of each row, as handles.
  tensor_list own_shards() const;
  /// The member's part of a gather; allocates the rows if they were released.
  /// Parameters are whole once it is done.
  all_gather begin_gather();
  /// Frees the whole parameters. Throws `internal` if they are not whole.
  void release();
  /// Throws `internal` naming the op if the parameters are not whole.
  void require_whole(const std::string& op) const;
  bool is_whole() const { return whole_; }
  /// Cuts the shards anew from whole parameters that were written to.
  void take_shards();

  /// The optimizer's state of whole parameters, from that of all shards, in
  /// their order.
  optimizer_state joined(const std::vector<optimizer_state>& shards) const;

 private:
  struct row {
    std::shared_ptr<const shard_layout> layout;
    tensor_list parameters;
    at::Tensor whole;  // padded
    at::Tensor shard;
  };
  void drop_casts();
  /// `kind`: the row's dtype and device. `optimizer`: null if the row is not
  /// updated. `preferred`: as in shard_layout::of_whole.
  static row make_row(const parameter_list& parameters,
                      const shard_place& place, const at::TensorOptions& kind,
                      const optimizer_options* optimizer,
                      std::int32_t preferred = 0);
  /// The part of a row that is the member's shard.
  static at::Tensor own_part(const row& of, const shard_place& place);
  void make_rows(const parameter_list& trained, const parameter_list& frozen,
                 const std::vector<tied_gradient>& tied,
                 const optimizer_options& optimizer);
  void make_pieces(const std::vector<tied_gradient>& tied,
                   const numerics& options);

  shard_place place_;
  parameter_list frozen_;
  std::vector<row> rows_;  // cut, whole, each tied one; frozen, if any are
  row_layouts layouts_;    // of the rows of trained parameters
  std::vector<shard_layout::piece> pieces_;
  std::vector<std::string> names_;  // of the trained parameters
  std::size_t first_tied_ = 0;      // index among the trained parameters
  bool whole_ = true;
  weight_casts::pointer casts_;
};

}  // namespace troupe
