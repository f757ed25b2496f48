#include "host_statistics.hpp"

#include <ATen/ops/zeros.h>

#include <array>
#include <type_traits>

#include "troupe/engine/cuda/statistics_pieces.hpp"

namespace troupe {
namespace {

/// Like block_join.cuh: joins values from the far half until one is left.
template <class Value>
Value joined(Value* values, int count) {
  for (int offset = count / 2; offset > 0; offset /= 2)
    for (int i = 0; i < offset; ++i) {
      if constexpr (std::is_same_v<Value, moments>)
        values[i].add(values[i + offset]);
      else
        values[i].join(values[i + offset]);
    }
  return values[0];
}

template <class Part>
Part joined_block(std::array<Part, block_threads> threads) {
  std::array<Part, block_warps> warps;
  for (int warp = 0; warp < block_warps; ++warp)
    warps[static_cast<std::size_t>(warp)] =
      joined(threads.data() + warp * warp_lanes, warp_lanes);
  return joined(warps.data(), block_warps);
}

/// The launch for one tensor.
template <class Format>
class host_launch {
  using stored = typename Format::stored;
  static constexpr bool is_fast = sizeof(typename Format::wide) == 4;

 public:
  host_launch(const statistics_entry& entry, double* row, bool wide)
    : entry_{entry},
      data_{static_cast<const stored*>(entry.data)},
      row_{row},
      wide_{wide} {}

  void run() {
    for (std::int64_t piece = 0; piece < entry_.pieces(); ++piece) {
      const auto range = range_of(entry_, piece);
      const auto centre =
        centre_of<Format>(data_[range.first * entry_.width + range.begin]);
      fits_ = is_fast;
      auto threads = take_piece(range, centre);
      if (is_fast && !fits_)
        threads = take_piece(range, centre);
      auto part = part_of(joined_block(threads), centre);
      if (entry_.lanes == block_threads && entry_.split == 1)
        part.instances.add(part.values);
      parts_.push_back(part);
    }
    write_row(entry_, joined_block(take_parts()), row_);
    for (std::int64_t i = 0; wide_ && i < entry_.instances * entry_.width; ++i)
      if (const auto bin = bin_of(Format::widened(data_[i])); bin >= 0)
        row_[statistics_columns + bin] += 1;
  }

 private:
  using thread_parts = std::array<thread_part, block_threads>;
  using thread_totals = std::array<statistics_total, block_threads>;

  centred_sums take_fast(std::int64_t begin, std::int64_t end, int lane,
                         double centre, thread_part& part) {
    const int lanes = entry_.lanes, tile = lanes * run_length;
    run_sums sums{centre};
    for (; begin + tile <= end; begin += tile) {
      const auto run = run_at<true>(begin, lane, run_length);
      fits_ = run.add_to(sums, part.counts) && fits_;
    }
    const auto count =
      lane_count<Format>(static_cast<int>(end - begin), lanes, lane);
    if (count > 0)
      fits_ =
        run_at<false>(begin, lane, count).add_to(sums, part.counts) && fits_;
    part.range.join(sums.range());
    return sums.values;
  }

  template <bool Full>
  value_run<Full> run_at(std::int64_t begin, int lane, int count) const {
    value_run<Full> run;
    run.count = count;
    for (int i = 0; i < count; ++i)
      run.values[i] = static_cast<float>(Format::widened(
        data_[begin + place_in_tile<Format>(i, entry_.lanes, lane)]));
    return run;
  }

  centred_sums take_carefully(std::int64_t begin, std::int64_t end, int lane,
                              double centre, thread_part& part) const {
    centred_sums sums;
    for (auto i = begin + lane; i < end; i += entry_.lanes)
      add_carefully(Format::widened(data_[i]), centre, sums, part);
    return sums;
  }

  /// The threads of a team process one instance.
  void take_instance(std::int64_t i, const piece_range& range, double centre,
                     thread_part* team, bool fast) {
    const auto begin = i * entry_.width + range.begin;
    const auto end = i * entry_.width + range.end;
    const auto own = centre_of<Format>(data_[begin]);
    std::array<centred_sums, block_threads> sums;
    for (int lane = 0; lane < entry_.lanes; ++lane)
      sums[static_cast<std::size_t>(lane)] =
        fast ? take_fast(begin, end, lane, own, team[lane])
             : take_carefully(begin, end, lane, own, team[lane]);
    if (entry_.lanes == block_threads)
      for (int lane = 0; lane < block_threads; ++lane)
        team[lane].values = sums[static_cast<std::size_t>(lane)];
    else
      team[0].add_instance(joined(sums.data(), entry_.lanes).about(own),
                           centre);
  }

  thread_parts take_piece(const piece_range& range, double centre) {
    thread_parts threads{};
    const auto teams = block_threads / entry_.lanes;
    const auto fast = fits_;
    for (auto i = range.first; i < range.last; ++i)
      take_instance(i, range, centre,
                    threads.data() + (i - range.first) % teams * entry_.lanes,
                    fast);
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
      const auto whole = joined(instance.data(), warp_lanes);
      warp->instances.add(whole);
      warp->values.add(whole);
    }
    return threads;
  }

  const statistics_entry entry_;
  const stored* data_;
  double* row_;
  const bool wide_;
  bool fits_ = true;
  std::vector<statistics_part> parts_;
};

device_type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return device_type::fp64;
    case at::kHalf:
      return device_type::fp16;
    case at::kBFloat16:
      return device_type::bf16;
    default:
      return device_type::fp32;
  }
}

}  // namespace

at::Tensor host_statistics_row(const at::Tensor& tensor, bool wide) {
  auto row = at::zeros({wide ? wide_statistics_columns : statistics_columns},
                       at::kDouble);
  const auto dense = tensor.contiguous();
  if (dense.numel() == 0)
    return row;
  const auto instances = dense.dim() == 0 ? 1 : dense.size(0);
  auto entry = cut(instances, dense.numel() / instances);
  entry.data = dense.const_data_ptr();
  entry.type = type_of(dense);
  with_format(entry.type, [&](auto format) {
    host_launch<decltype(format)>{entry, row.mutable_data_ptr<double>(), wide}
      .run();
  });
  return row;
}

}  // namespace troupe
