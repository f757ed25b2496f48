#pragma once

namespace troupe {

struct gpu_measurement {
  int rounds = 20;
  bool dry_run = false;  // small, on the CPU: its figures are meaningless
  bool json = false;     // one object instead of a Markdown table
};

/// Prints what each function with a kernel for GPUs takes beside LibTorch's
/// operators, in the shapes of a GPT and a Llama, and the share of the memory's
/// bandwidth: of the bytes that have to be read and written. To be called
/// before any other use of LibTorch. Throws `error` (device) if there is no
/// GPU.
void measure_on_gpu(const gpu_measurement& use);

}  // namespace troupe
