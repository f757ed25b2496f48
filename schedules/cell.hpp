#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/schedules/op.hpp"

namespace troupe {

/// The kind of one cell of a schedule's CSV (torch.distributed.pipelining).
enum class cell_kind : std::uint8_t {
  idle,              // an empty cell
  compute,           // 2F0, 3B11, 0I4, 0W4
  pair,              // (0F7;7B3)OVERLAP_F_B
  send_forward,      // 0SEND_F1; the stage is the one on this rank
  receive_forward,   // 1RECV_F1
  send_backward,     // 1SEND_B1
  receive_backward,  // 0RECV_B1
  offload,           // 0OFFLOAD1: what 0F1 keeps goes to the host's memory
  reload,            // 0RELOAD1: ... and returns; both are troupe's own
  unshard,           // 0UNSHARD: the stage's parameters are made whole
  reshard,           // 0RESHARD
  reduce,            // 0REDUCE_GRAD
};

struct cell {
  cell_kind kind = cell_kind::idle;
  /// The op, or the first of a pair; transfers and whole-stage actions use its
  /// stage and microbatch.
  op first{};
  op second{};  // of a pair
};

/// How ops are spelled.
enum class spelling : std::uint8_t {
  pytorch,  // 2F3; only what PyTorch's writer produces
  project,  // also 2F3.1 (slice 1), 2F3@1 (copy 1) and (0F7;7B3) for a pair
};

/// Reads one cell. Throws `error` (malformed_text) with only the reason.
cell parse_cell(std::string_view text, spelling style = spelling::pytorch);

/// "SEND_F", "UNSHARD", ...: the action of a cell that is no compute op.
std::string_view action_of(cell_kind kind);

/// The inverse of `parse_cell`.
std::string to_text(const cell& what);

/// Reads one line per rank. Lines end in LF or CR LF; the last line may lack
/// its end. Throws `error` (malformed_text) that names source, line, column and
/// cell.
std::vector<std::vector<cell>> parse_cells(std::string_view csv,
                                           std::string_view source);

}  // namespace troupe
