#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Stage `to` reads outputs of stage `from`.
struct stage_edge {
  std::int32_t from = 0;
  std::int32_t to = 0;

  friend auto operator<=>(const stage_edge&, const stage_edge&) = default;
};

/// Which stages read whose outputs, whatever lies between them: a directed
/// acyclic graph whose edges go from a stage to a later one. Gradients travel
/// along the same edges, backwards. Plain data.
class stage_graph {
 public:
  /// One end of an edge as seen from the other.
  struct neighbour {
    std::int32_t stage = 0;
    std::int32_t edge = 0;  // index in `edges`

    friend bool operator==(const neighbour&, const neighbour&) = default;
  };

  stage_graph() = default;  // of no stages
  /// Throws `invalid_argument` naming an edge that does not go from a stage to
  /// a later one of 0 to stages - 1, or that is given twice.
  stage_graph(std::int32_t stages, std::vector<stage_edge> edges);
  /// Each stage reads the one before.
  static stage_graph chain(std::int32_t stages);

  std::int32_t stages() const {
    return first_source_.empty()
             ? 0
             : static_cast<std::int32_t>(first_source_.size()) - 1;
  }
  bool is_chain() const;
  /// Ascending.
  const std::vector<stage_edge>& edges() const { return edges_; }

  /// Stages whose results an op of `stage` takes, ascending: of a backward
  /// those that read the stage's outputs.
  std::span<const neighbour> inputs(std::int32_t stage, bool backward) const {
    return backward ? range(readers_, first_reader_, stage)
                    : range(sources_, first_source_, stage);
  }
  /// Stages that take the result of an op of `stage`, ascending.
  std::span<const neighbour> outputs(std::int32_t stage, bool backward) const {
    return inputs(stage, !backward);
  }

  friend bool operator==(const stage_graph& a, const stage_graph& b) {
    return a.stages() == b.stages() && a.edges_ == b.edges_;
  }

 private:
  static std::span<const neighbour> range(
    const std::vector<neighbour>& all, const std::vector<std::uint32_t>& first,
    std::int32_t stage) {
    const auto s = static_cast<std::size_t>(stage);
    return std::span{all}.subspan(first[s], first[s + 1] - first[s]);
  }

  std::vector<stage_edge> edges_;
  std::vector<neighbour> sources_, readers_;  // by stage, from first_*
  std::vector<std::uint32_t> first_source_, first_reader_;  // stages + 1
};

/// "0>1 0>2 1>2".
std::string to_text(const stage_graph& graph);

}  // namespace troupe
