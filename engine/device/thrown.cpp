#include "troupe/engine/device/thrown.hpp"

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

namespace troupe {

namespace {

/// Names the current exception's type; a foreign exception has none.
std::string thrown_type() {
  const auto* type = abi::__cxa_current_exception_type();
  if (type == nullptr)
    return "of another language";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable{
    abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free};
  return fmt::format("of type {}", status == 0 ? readable.get() : type->name());
}

/// LibTorch's message without the source line of its allocator.
std::string without_place(const std::string& message) {
  constexpr std::string_view reason = "DefaultCPUAllocator: can't allocate";
  const auto begin = message.find(reason);
  if (!message.starts_with("[enforce fail at ") || begin == std::string::npos)
    return message;
  return "no memory could be allocated ("
         + message.substr(begin, message.find('\n') - begin) + ")";
}

}  // namespace

std::string thrown_text() {
  try {
    throw;
  } catch (const c10::Error& reason) {
    return without_place(reason.what_without_backtrace());
  } catch (const std::system_error& reason) {
    if (reason.code() == std::errc::resource_unavailable_try_again)
      return fmt::format(
        "no thread could be started ({}); raise the limit of processes (ulimit "
        "-u, the cgroup's pids.max), or of the address space (ulimit -v)",
        reason.what());
    return reason.what();
  } catch (const std::bad_alloc&) {
    return "no memory could be allocated (std::bad_alloc)";
  } catch (const std::exception& reason) {
    return reason.what();
  } catch (const char* reason) {
    return reason == nullptr ? "a null string was thrown" : reason;
  } catch (const std::string& reason) {
    return reason;
  } catch (...) {
    return fmt::format(
      "an exception {} was thrown, which is not a std::exception",
      thrown_type());
  }
}

}  // namespace troupe
