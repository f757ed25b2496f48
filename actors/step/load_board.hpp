#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Which microbatches the data source is loading now, by replica. Any thread.
class load_board {
 public:
  explicit load_board(std::int32_t data_ranks)
    : running_(static_cast<std::size_t>(data_ranks)) {}

  /// A call of the source, from construction to destruction.
  class call {
   public:
    call(load_board* board, std::int32_t data_rank, std::int64_t index);
    ~call();
    call(const call&) = delete;
    call& operator=(const call&) = delete;

   private:
    load_board* board_;
    std::int32_t data_rank_;
  };

  /// "the data source has not returned microbatch 3 (of replica 0) for 5 s";
  /// empty: no call runs.
  std::string describe() const;

 private:
  struct entry {
    std::int64_t index;
    std::int64_t since;
  };
  mutable std::mutex mutex_;
  std::vector<std::optional<entry>> running_;
};

}  // namespace troupe
