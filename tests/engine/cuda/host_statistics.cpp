#include "host_statistics.hpp"

#include <ATen/ops/zeros.h>

#include <array>

#include "troupe/engine/cuda/statistics_pieces.hpp"

namespace troupe {
namespace {

/// As block_join.cuh: lanes from the far half, then warps in order.
template <class Value, class Join>
Value joined_warp(Value* lanes, Join join) {
  for (int offset = warp_lanes / 2; offset > 0; offset /= 2)
    for (int i = 0; i < offset; ++i)
      join(lanes[i], lanes[i + offset]);
  return lanes[0];
}

template <class Part>
Part joined_block(std::array<Part, block_threads> threads) {
  const auto join = [](Part& to, const Part& from) { to.join(from); };
  auto result = joined_warp(threads.data(), join);
  for (int warp = 1; warp < block_warps; ++warp)
    result.join(joined_warp(threads.data() + warp * warp_lanes, join));
  return result;
}

template <class Part>
void add_instance(moments* lanes, Part& first) {
  const auto instance =
    joined_warp(lanes, [](moments& to, const moments& from) { to.add(from); });
  first.add_instance(instance);
  first.values.add(instance);
}

/// A launch for one tensor.
template <class T, class Load>
class host_launch {
 public:
  host_launch(const statistics_entry& entry, Load load, double* row, bool wide)
    : entry_{entry}, load_{load}, row_{row}, wide_{wide} {}

  void run() {
    for (std::int64_t piece = 0; piece < entry_.pieces(); ++piece) {
      auto part = joined_block(take_piece(piece));
      if (entry_.lanes == block_threads && entry_.split == 1)
        part.add_instance(part.values);
      parts_.push_back(part);
    }
    write_row(entry_, joined_block(take_parts()), row_);
  }

 private:
  using thread_parts = std::array<statistics_part, block_threads>;
  using thread_totals = std::array<statistics_total, block_threads>;

  void take(std::int64_t begin, std::int64_t end, int lane,
            statistics_part& part, moments& instance) {
    const int lanes = entry_.lanes;
    for (auto i = begin + lane; i < end; i += lanes * run_values<T>) {
      const auto run = run_at<T>(load_, i, end, lanes);
      run.add_to(part, instance);
      for (int k = 0; wide_ && k < run_values<T>; ++k)
        if (const auto bin = run.bin(k); bin >= 0)
          row_[statistics_columns + bin] += 1;
    }
  }

  /// The threads of one team take one instance.
  void take_instance(std::int64_t i, const piece_range& range,
                     statistics_part* team) {
    std::array<moments, block_threads> instance{};
    const auto begin = i * entry_.width;
    for (int lane = 0; lane < entry_.lanes; ++lane)
      take(begin + range.begin, begin + range.end, lane, team[lane],
           instance[lane]);
    if (entry_.lanes == warp_lanes)
      return add_instance(instance.data(), team[0]);
    for (int lane = 0; lane < entry_.lanes; ++lane) {
      if (entry_.lanes == 1)
        team[lane].add_instance(instance[lane]);
      team[lane].values.add(instance[lane]);
    }
  }

  thread_parts take_piece(std::int64_t piece) {
    thread_parts threads{};
    const auto range = range_of(entry_, piece);
    const auto teams = block_threads / entry_.lanes;
    for (auto i = range.first; i < range.last; ++i)
      take_instance(i, range,
                    threads.data() + (i - range.first) % teams * entry_.lanes);
    return threads;
  }

  thread_totals take_parts() const {
    thread_totals threads{};
    if (entry_.split == 1) {
      for (std::size_t k = 0; k < parts_.size(); ++k)
        threads[k % block_threads].join(parts_[k]);
      return threads;
    }
    for (std::int64_t i = 0; i < entry_.instances; ++i) {
      std::array<moments, warp_lanes> instance{};
      auto* warp = threads.data() + i % block_warps * warp_lanes;
      for (int k = 0; k < entry_.split; ++k) {
        const auto& part =
          parts_[static_cast<std::size_t>(i * entry_.split + k)];
        warp[k % warp_lanes].join_rest(part);
        instance[static_cast<std::size_t>(k % warp_lanes)].add(part.values);
      }
      add_instance(instance.data(), warp[0]);
    }
    return threads;
  }

  const statistics_entry entry_;
  const Load load_;
  double* row_;
  const bool wide_;
  std::vector<statistics_part> parts_;
};

template <class T, class Load>
void launch(const at::Tensor& tensor, Load load, at::Tensor& row) {
  const auto instances = tensor.dim() == 0 ? 1 : tensor.size(0);
  host_launch<T, Load>{cut(instances, tensor.numel() / instances), load,
                       row.mutable_data_ptr<double>(),
                       row.numel() > statistics_columns}
    .run();
}

}  // namespace

at::Tensor host_statistics_row(const at::Tensor& tensor, bool wide) {
  auto row = at::zeros({wide ? wide_statistics_columns : statistics_columns},
                       at::kDouble);
  const auto dense = tensor.contiguous();
  const auto* data = dense.const_data_ptr();
  const auto* words = static_cast<const std::uint16_t*>(data);
  if (dense.numel() == 0)
    return row;
  if (dense.scalar_type() == at::kDouble)
    launch<double>(dense,
                   plain_values<double>{static_cast<const double*>(data)}, row);
  else if (dense.scalar_type() == at::kHalf)
    launch<float>(dense, half_values{words}, row);
  else if (dense.scalar_type() == at::kBFloat16)
    launch<float>(dense, bfloat16_values{words}, row);
  else
    launch<float>(dense, plain_values<float>{static_cast<const float*>(data)},
                  row);
  return row;
}

}  // namespace troupe
