#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

inline constexpr std::uint16_t frame_version = 1;

/// What a frame between processes of a job is for.
enum class frame_type : std::uint16_t {
  control = 1,  // of the job: rendezvous, steps, failures
  tensors,      // of a stage to its neighbour
  credit,       // the neighbour has consumed one
  part,         // of a reduction
  mail,         // between the threads that call the trainer
  heartbeat,
  goodbye,     // nothing follows: the sender ends as it should
  collective,  // of a process_group
};

/// A message: bytes that its type says how to read, and tensors.
struct frame {
  frame_type type = frame_type::control;
  std::string head;
  tensor_list tensors{};
};

/// What a receiver takes at most; more is refused before memory is taken.
struct frame_limits {
  std::uint32_t head_bytes = std::uint32_t{1} << 26;
  std::uint64_t tensor_bytes = std::uint64_t{1} << 40;
};

/// The fixed part of a frame: magic "TRPF", version, type, bytes of the head
/// (with the table of tensors before it), bytes of all tensors; little endian.
struct frame_header {
  static constexpr std::size_t bytes = 24;

  frame_type type = frame_type::control;
  std::uint32_t head_bytes = 0;
  std::uint64_t tensor_bytes = 0;

  bool operator==(const frame_header&) const = default;
};

/// A tensor as it is announced; without a dtype: none there.
struct tensor_form {
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<std::int64_t> sizes{};

  bool operator==(const tensor_form&) const = default;
};

/// A frame without its tensors' bytes.
struct frame_head {
  std::vector<tensor_form> tensors;
  std::string head;
};

/// Whether a frame can carry it, once it is contiguous in the CPU's memory:
/// dense, and of a dtype that all sides know.
bool can_travel(const at::Tensor& tensor);

/// Header, table of tensors, and head of a frame: what goes before the
/// tensors' own bytes. Tensors have to be on the CPU and contiguous, or
/// undefined. Throws `transport` for what no frame can carry.
std::string frame_start(const frame& what);

/// Throws `transport` for wrong magic, another version (naming both), an
/// unknown type, and what is beyond the limits.
frame_header read_frame_header(std::string_view bytes,
                               const frame_limits& limits);

/// Reads the `head_bytes` after a header. Throws `transport` where the table
/// doesn't add up to the bytes that the header announces.
frame_head read_frame_head(const frame_header& header, std::string_view bytes);

/// Bytes of tensors of these forms. Throws `transport` where a size can't be.
std::uint64_t bytes_of(const std::vector<tensor_form>& forms);

/// Tensors of these forms, to be filled.
tensor_list allocate(const std::vector<tensor_form>& forms);

}  // namespace troupe
