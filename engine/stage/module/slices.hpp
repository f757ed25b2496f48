#pragma once

#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <memory>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/module/saved_tensors.hpp"
#include "troupe/engine/stage/module/split_backward.hpp"

namespace troupe {

/// Which part of a microbatch's sequence runs: slices cut dimension 1. `index`
/// and `count` are those of a step also where the sequence is generated.
struct slice_place {
  std::int32_t index = 0;
  std::int32_t count = 1;
  std::int64_t first = 0;  // position of its first element
};

/// Slice `index` of `count`, whose lengths differ by at most one, the longer
/// ones first. All tensors are cut that are as long as the first one of two
/// dimensions or more. Throws `invalid_argument` if there is none, and for
/// fewer positions than slices.
microbatch_data slice_of(const microbatch_data& data, std::int32_t index,
                         std::int32_t count);

/// The size in dimension 1 of the first tensor of two dimensions or more; 0:
/// there is none.
std::int64_t sequence_length(const tensor_list& tensors);

/// The tensors of a batch's earlier positions (keys and values) where no
/// gradient is wanted. Each call of `with_earlier_slices` has one buffer, in
/// which a new position is written behind those before. Buffers grow
/// geometrically. Dimension 0 of the tensors counts the batch's rows. Used by
/// one thread at a time.
class position_cache {
 public:
  /// Writes a call's tensor behind the earlier ones along a dimension, and
  /// returns all of them: a view, whose values stay until `keep_rows`. Throws
  /// `invalid_argument` for a tensor that differs from those before in another
  /// dimension or in its type.
  at::Tensor append(std::size_t call, const at::Tensor& tensor,
                    std::int64_t dimension);
  /// Drops all rows but these, ascending.
  void keep_rows(const std::vector<std::int64_t>& rows);

  std::size_t calls() const { return buffers_.size(); }
  /// The bytes of all buffers, with their unwritten parts.
  std::int64_t bytes() const;

 private:
  struct buffer {
    at::Tensor whole;
    std::int64_t used = 0;  // along `dimension`
    std::int64_t dimension = 0;
  };
  static void grow(buffer& target, const at::Tensor& tensor,
                   std::int64_t needed);

  std::vector<buffer> buffers_;  // by call
};

/// The tensors that the slices of a microbatch hand on: in forwards those of
/// earlier slices, in backwards their gradients, summed over the later slices,
/// the last one first. Constant once handed on.
struct slice_carry final : stage_state {
  std::int64_t positions = 0;  // so far
  tensor_lists of_call;        // by call of `with_earlier`, then by slice
  position_cache cache;        // instead, where no gradients are wanted
};
using slice_carry_pointer = std::shared_ptr<slice_carry>;

/// One slice's pass through a stage: the tensors that its modules read of
/// earlier slices, and keep for later ones (keys and values: TeraPipe, Li et
/// al., 2021; Seq1F1B, Sun et al., 2024). The autograd graph of a slice ends at
/// the tensors of earlier ones. Used by one thread at a time.
class slice_pass {
 public:
  /// `earlier`: what the slice before handed on; null: this slice is the first.
  /// Without `gradients` there is no backward, and `earlier` is handed on
  /// itself, with this slice's part.
  slice_pass(std::int32_t index, std::int32_t count,
             slice_carry_pointer earlier, std::int64_t length,
             bool gradients = true);

  const slice_place& place() const { return place_; }
  at::Tensor with_earlier(const at::Tensor& tensor, std::int64_t dimension);
  /// Returns the tensors for the next slice, after the forward. Throws
  /// `invalid_argument` if the slice has made fewer calls than those before.
  slice_carry_pointer for_later() const;

  /// Drops the data with the saved tensors, after `for_later`: the backward
  /// needs only shapes of it.
  void drop_data_with(saved_tensors& saved);

  /// The graph's leaves of earlier slices: the backward gives their gradients
  /// to `gradients_for_earlier`, in this order.
  const tensor_list& leaves() const { return leaves_; }
  /// `later`: what the next slice's backward handed on; null: it is the last.
  void add_roots(backward_roots& roots, const slice_carry* later) const;
  slice_carry_pointer gradients_for_earlier(const tensor_list& of_leaves,
                                            const slice_carry* later) const;

 private:
  [[noreturn]] void refuse_calls(std::size_t calls) const;
  std::size_t earlier_calls() const;

  slice_place place_;
  bool gradients_;
  slice_carry_pointer earlier_;
  std::int64_t positions_;  // with this slice
  tensor_list leaves_;
  std::vector<torch::autograd::Edge> own_edges_;  // by call
  tensor_list own_;                               // without a graph
  std::size_t calls_ = 0;
};

/// The pass that is current on this thread; null: none.
slice_pass*& current_pass();
using slice_scope = current_scope<slice_pass*, current_pass>;

/// The slice that runs on this thread; the whole sequence without one. Modules
/// that run in slices (stage_module::runs_in_slices) may call it.
slice_place current_slice();
/// The earlier slices' tensors of this call, concatenated with this slice's
/// own along a dimension (below 0: counted from the last), in order. Calls must
/// come in the same order in each slice.
at::Tensor with_earlier_slices(const at::Tensor& tensor,
                               std::int64_t dimension);

}  // namespace troupe
