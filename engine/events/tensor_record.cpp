#include "troupe/engine/events/tensor_record.hpp"

#include <fmt/format.h>

namespace troupe {

namespace {

std::string indexed(const char* what, const tensor_record& record) {
  if (record.index < 0)
    return what;
  if (record.inner < 0)
    return fmt::format("{}[{}]", what, record.index);
  return fmt::format("{}[{}][{}]", what, record.index, record.inner);
}

}  // namespace

const char* to_text(tensor_kind kind) {
  switch (kind) {
    case tensor_kind::activation:
      return "activation";
    case tensor_kind::input:
      return "input";
    case tensor_kind::weight:
      return "weight";
    case tensor_kind::activation_gradient:
      return "activation gradient";
    case tensor_kind::parameter:
      return "parameter";
    case tensor_kind::gradient:
      return "gradient";
    case tensor_kind::loss:
      return "loss";
    case tensor_kind::none:
      break;
  }
  return "nothing";
}

std::string part_text(const tensor_record& record) {
  switch (record.kind) {
    case tensor_kind::activation:
      return indexed("output", record);
    case tensor_kind::input:
      return indexed("input", record);
    case tensor_kind::activation_gradient:
      return indexed("gradient of output", record);
    case tensor_kind::weight:
      return record.part;
    default:
      return to_text(record.kind);
  }
}

}  // namespace troupe
