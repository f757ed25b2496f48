# torch::c10 and torch::cpu, from the wheel's LibTorch or the user's.
# (LibTorch's own find_package fails without nvcc and in C++20.)
#
# Torch_DIR, a CMake or environment variable: the root of a LibTorch, or its
# share/cmake/Torch. The default is the cache that scripts/setup fills.
set(TROUPE_TORCH_VERSION 2.11.0)
if(NOT Torch_DIR AND DEFINED ENV{Torch_DIR})
  set(Torch_DIR $ENV{Torch_DIR})
endif()
find_path(TROUPE_TORCH_ROOT include/ATen/ATen.h
  HINTS ${Torch_DIR} ${Torch_DIR}/../../.. ${TROUPE_PACKAGED_TORCH}
  PATHS ${TROUPE_CACHE}/libtorch-${TROUPE_TORCH_VERSION}/torch
  NO_DEFAULT_PATH)
if(NOT TROUPE_TORCH_ROOT)
  message(FATAL_ERROR
    "LibTorch is missing: run scripts/setup, or set Torch_DIR.")
endif()
cmake_path(NORMAL_PATH TROUPE_TORCH_ROOT)

# After the system's folders: LibTorch bundles headers of fmt and others.
function(troupe_torch_library name file)
  if(NOT TARGET torch::${name})
    add_library(torch::${name} SHARED IMPORTED)
    set_target_properties(torch::${name} PROPERTIES
      IMPORTED_LOCATION ${TROUPE_TORCH_ROOT}/lib/${file}
      INTERFACE_LINK_LIBRARIES "${ARGN}")
    # Clang 18 and later mangle constrained templates as LibTorch's g++ doesn't.
    set(has_other_names $<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,18>)
    target_compile_options(torch::${name} INTERFACE
      $<$<AND:$<COMPILE_LANG_AND_ID:CXX,Clang>,${has_other_names}>:-fclang-abi-compat=17>
      "SHELL:-idirafter \"${TROUPE_TORCH_ROOT}/include\""
      "SHELL:-idirafter \"${TROUPE_TORCH_ROOT}/include/torch/csrc/api/include\"")
  endif()
endfunction()

troupe_torch_library(c10 libc10.so)
troupe_torch_library(cpu libtorch_cpu.so torch::c10)
