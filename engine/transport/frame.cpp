#include "troupe/engine/transport/frame.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <limits>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

constexpr std::uint32_t magic = 0x46505254;  // "TRPF"
constexpr std::size_t most_dimensions = 64;

/// A dtype's code on the wire is its index here.
constexpr std::array dtypes{
  at::ScalarType::Undefined, at::ScalarType::Float,    at::ScalarType::Double,
  at::ScalarType::Half,      at::ScalarType::BFloat16, at::ScalarType::Bool,
  at::ScalarType::Byte,      at::ScalarType::Char,     at::ScalarType::Short,
  at::ScalarType::Int,       at::ScalarType::Long};

void put_tensor(wire_writer& target, const at::Tensor& tensor) {
  const auto dtype =
    tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined;
  const auto code = std::ranges::find(dtypes, dtype);
  if (code == dtypes.end())
    fail(error_code::transport, "a {} can't be sent between processes",
         describe(tensor));
  if (tensor.defined() && !(tensor.is_cpu() && tensor.is_contiguous()))
    fail(error_code::internal, "can't send a {} that is not contiguous",
         describe(tensor));
  target.put(static_cast<std::uint8_t>(code - dtypes.begin()));
  const auto sizes = tensor.defined() ? tensor.sizes() : at::IntArrayRef{};
  target.put(static_cast<std::uint8_t>(sizes.size()));
  for (const auto size : sizes)
    target.put(size);
}

tensor_form get_tensor(wire_reader& source) {
  const auto code = source.get<std::uint8_t>();
  const auto dimensions = source.get<std::uint8_t>();
  if (code >= dtypes.size() || dimensions > most_dimensions
      || (code == 0 && dimensions > 0))
    wire_reader::refuse("a tensor of an unknown kind");
  tensor_form form{dtypes[code], std::vector<std::int64_t>(dimensions)};
  for (auto& size : form.sizes)
    size = source.get<std::int64_t>();
  return form;
}

/// The bytes of a tensor. Even a tensor without elements may not have sizes
/// whose product overflows in LibTorch.
std::uint64_t bytes_of(const tensor_form& form) {
  if (form.dtype == at::ScalarType::Undefined)
    return 0;
  auto bytes = static_cast<std::int64_t>(c10::elementSize(form.dtype));
  for (const auto size : form.sizes)
    if (size < 0
        || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1),
                                  &bytes))
      wire_reader::refuse("a tensor with an impossible size");
  const bool empty = std::ranges::count(form.sizes, 0) > 0;
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

bool has_no_tensors(frame_type type) {
  return type == frame_type::credit || type == frame_type::heartbeat
         || type == frame_type::goodbye;
}

}  // namespace

bool can_travel(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided
         && static_cast<std::size_t>(tensor.dim()) <= most_dimensions
         && std::ranges::count(dtypes, tensor.scalar_type()) > 0;
}

std::string frame_start(const frame& message) {
  wire_writer table;
  table.put(static_cast<std::uint32_t>(message.tensors.size()));
  for (const auto& tensor : message.tensors)
    put_tensor(table, tensor);
  const auto head_bytes = table.bytes().size() + message.head.size();
  if (head_bytes > std::numeric_limits<std::uint32_t>::max())
    fail(error_code::transport, "a message of {} bytes is too long",
         head_bytes);
  std::uint64_t tensor_bytes = 0;
  for (const auto& tensor : message.tensors)
    tensor_bytes += tensor.defined() ? tensor.nbytes() : 0;
  wire_writer header;
  header.put(magic);
  header.put(frame_version);
  header.put(message.type);
  header.put(static_cast<std::uint32_t>(head_bytes));
  header.put(std::uint32_t{0});
  header.put(tensor_bytes);
  return header.take() + table.take() + message.head;
}

frame_header read_frame_header(std::string_view bytes,
                               const frame_limits& limits) {
  wire_reader source(bytes);
  if (source.get<std::uint32_t>() != magic)
    fail(error_code::transport, "the peer is not a process of a troupe job");
  const auto version = source.get<std::uint16_t>();
  if (version != frame_version)
    fail(error_code::transport,
         "the peer speaks version {} of the link protocol, this program {}; "
         "run the same program everywhere",
         version, frame_version);
  const auto type = source.get<std::uint16_t>();
  if (type < static_cast<std::uint16_t>(frame_type::control)
      || type > static_cast<std::uint16_t>(frame_type::copy))
    fail(error_code::transport, "the peer sent a message of type {}", type);
  frame_header header{static_cast<frame_type>(type),
                      source.get<std::uint32_t>(), 0};
  if (source.get<std::uint32_t>() != 0)
    wire_reader::refuse("nonzero reserved bytes");
  header.tensor_bytes = source.get<std::uint64_t>();
  const auto most = has_no_tensors(header.type) ? 0 : limits.tensor_bytes;
  if (header.head_bytes > limits.head_bytes || header.tensor_bytes > most)
    fail(error_code::transport,
         "the peer announces {} and {} bytes; at most {} and {} are accepted",
         header.head_bytes, header.tensor_bytes, limits.head_bytes, most);
  return header;
}

frame_head read_frame_head(const frame_header& header, std::string_view bytes) {
  wire_reader source(bytes);
  frame_head message;
  for (auto left = source.get_count(2); left > 0; --left)
    message.tensors.push_back(get_tensor(source));
  if (bytes_of(message.tensors) != header.tensor_bytes)
    wire_reader::refuse("tensors of other sizes than it announces");
  message.head = bytes.substr(bytes.size() - source.left());
  return message;
}

std::uint64_t bytes_of(const std::vector<tensor_form>& forms) {
  std::uint64_t total = 0;
  for (const auto& form : forms)
    if (__builtin_add_overflow(total, bytes_of(form), &total))
      wire_reader::refuse("tensors with impossible sizes");
  return total;
}

tensor_list allocate(const std::vector<tensor_form>& forms) {
  tensor_list tensors;
  for (const auto& form : forms)
    tensors.push_back(form.dtype == at::ScalarType::Undefined
                        ? at::Tensor{}
                        : at::empty(form.sizes, at::dtype(form.dtype)));
  return tensors;
}

}  // namespace troupe
