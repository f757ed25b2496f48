#include "troupe/schedules/stage_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

std::vector<std::uint32_t> firsts(std::int32_t stages) {
  return std::vector<std::uint32_t>(static_cast<std::size_t>(stages) + 1, 0);
}

/// Turns counts, each behind its stage, into the stages' first places.
void add_up(std::vector<std::uint32_t>& counts) {
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
}

}  // namespace

stage_graph::stage_graph(std::int32_t stages, std::vector<stage_edge> edges)
  : edges_(std::move(edges)),
    first_source_(firsts(stages)),
    first_reader_(firsts(stages)) {
  std::ranges::sort(edges_);
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const auto [giver, reader] = edges_[i];
    if (giver < 0 || giver >= reader || reader >= stages)
      fail(error_code::invalid_argument,
           "stage {} can't read stage {}: of {} stages, each reads only "
           "earlier ones, in the order of the layers",
           reader, giver, stages);
    if (i > 0 && edges_[i] == edges_[i - 1])
      fail(error_code::invalid_argument, "the edge {}>{} is given twice", giver,
           reader);
    ++first_source_[static_cast<std::size_t>(reader) + 1];
    ++first_reader_[static_cast<std::size_t>(giver) + 1];
  }
  add_up(first_source_);
  add_up(first_reader_);
  sources_.resize(edges_.size());
  auto next = first_source_;
  for (std::int32_t i = 0; i < std::ssize(edges_); ++i) {
    const auto [giver, reader] = edges_[static_cast<std::size_t>(i)];
    readers_.push_back({reader, i});
    sources_[next[static_cast<std::size_t>(reader)]++] = {giver, i};
  }
}

stage_graph stage_graph::chain(std::int32_t stages) {
  std::vector<stage_edge> edges;
  for (std::int32_t s = 0; s + 1 < stages; ++s)
    edges.push_back({s, s + 1});
  return {stages, std::move(edges)};
}

std::string to_text(const stage_graph& graph) {
  std::string text;
  for (const auto [giver, reader] : graph.edges())
    text += fmt::format("{}{}>{}", text.empty() ? "" : " ", giver, reader);
  return text;
}

bool stage_graph::is_chain() const {
  return std::ssize(edges_) == std::max(0, stages() - 1)
         && std::ranges::all_of(edges_,
                                [](auto e) { return e.to == e.from + 1; });
}

}  // namespace troupe
