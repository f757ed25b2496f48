#pragma once

namespace troupe {

/// The instruction sets for which kernels are compiled. avx2: with fused
/// multiply-adds; avx512: with the parts F, BW, DQ and VL, too.
enum class instruction_set { plain, avx2, avx512 };

/// The best that the processor has, unless LibTorch is held to less
/// (ATEN_CPU_CAPABILITY=avx2 or default), which then holds for kernels of
/// troupe's, too. The same at each call. Any thread.
instruction_set usable_instructions();

}  // namespace troupe
