#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

inline constexpr std::uint16_t frame_version = 5;

/// The purpose of a frame between processes of a job.
enum class frame_type : std::uint16_t {
  control = 1,  // for the job: rendezvous, steps, failures
  tensors,      // from a stage to its neighbour
  credit,       // the neighbour has consumed one frame
  part,         // one piece of a reduction
  tokens,       // chosen by the last stage, for the first one
  mail,         // between the threads that call the trainer, which wait for it
  heartbeat,
  goodbye,  // nothing follows: an orderly end
  note,     // a text between these threads, which do not wait for it
  state,    // of a stage that moves to another process
  copy,     // of a stage's state, for another process to keep
};

/// A message: bytes in a format given by its type, and tensors.
struct frame {
  frame_type type = frame_type::control;
  std::string head;
  tensor_list tensors{};
};

/// A receiver's limits; frames beyond them are refused before allocation.
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

template <>
inline constexpr auto largest_value<at::ScalarType> = at::ScalarType::Undefined;

/// An announced tensor; undefined if it has no dtype.
struct tensor_form {
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<std::int64_t> sizes{};

  bool operator==(const tensor_form&) const = default;
};
TROUPE_FIELDS(tensor_form, dtype, sizes)

/// A frame without its tensors' bytes.
struct frame_head {
  std::vector<tensor_form> tensors;
  std::string head;
};

/// Whether a frame can carry a tensor once it is contiguous in CPU memory: a
/// dense one, of a dtype that all sides know.
bool can_travel(const at::Tensor& tensor);

/// The header, the table of tensors, and the head of a frame: everything before
/// the tensors' bytes. Tensors must be contiguous on the CPU, or undefined.
/// Throws `transport` if a frame can't carry them.
std::string frame_start(const frame& message);

/// Throws `transport` for a wrong magic, another version (naming both), an
/// unknown type, and sizes beyond the limits.
frame_header read_frame_header(std::string_view bytes,
                               const frame_limits& limits);

/// Reads the `head_bytes` after a header. Throws `transport` if the table
/// doesn't match the bytes that the header announces.
frame_head read_frame_head(const frame_header& header, std::string_view bytes);

/// The bytes of tensors of these forms. Throws `transport` for invalid sizes.
std::uint64_t bytes_of(const std::vector<tensor_form>& forms);

/// Allocates tensors of these forms.
tensor_list allocate(const std::vector<tensor_form>& forms);

}  // namespace troupe
