# The code for GPUs: a separate library, libtroupe_cuda.so, that programs load
# if there is a GPU (engine/device/load_accelerator.hpp). This file decides
# whether it is built, and sets the compiler and the imported targets
# torch::cuda, cuda::runtime and cuda::nccl.
#
# TROUPE_CUDA_ROOT, a CMake or environment variable: a folder with bin/nvcc,
# include and lib of CUDA 13, and NCCL's nccl.h and libnccl.so.2 in it or in
# NCCL_ROOT. The default is the cache that scripts/setup fills.
if(NOT TROUPE_CUDA_ROOT AND DEFINED ENV{TROUPE_CUDA_ROOT})
  set(TROUPE_CUDA_ROOT $ENV{TROUPE_CUDA_ROOT})
endif()
set(cached ${TROUPE_CACHE}/cuda-13.0/nvidia)
find_program(TROUPE_NVCC nvcc NO_DEFAULT_PATH
  HINTS ${TROUPE_CUDA_ROOT}/bin PATHS ${cached}/cu13/bin)

set(default OFF)
if(PROJECT_IS_TOP_LEVEL AND TROUPE_NVCC AND NOT TROUPE_SANITIZER
    AND EXISTS ${TROUPE_TORCH_ROOT}/lib/libtorch_cuda.so
    AND CMAKE_SYSTEM_NAME STREQUAL Linux
    AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(default ON)
endif()
# CUDA 13.0's headers and those of glibc from 2.42 on contradict each other, and
# nvcc refuses host compilers that it does not know.
if(default AND NOT DEFINED TROUPE_CUDA)
  set(probe ${PROJECT_BINARY_DIR}/nvcc_probe)
  file(WRITE ${probe}.cu "int main() {}\n")
  execute_process(
    COMMAND ${TROUPE_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -c ${probe}.cu
      -o ${probe}.o
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    string(REGEX MATCH "[^\n]*error[^\n]*" reason "${output}")
    message(WARNING "libtroupe_cuda.so, for GPUs, is left out, since nvcc fails "
      "with ${CMAKE_CXX_COMPILER} on this system: ${reason}")
    set(default OFF)
  endif()
endif()
option(TROUPE_CUDA "Build libtroupe_cuda.so, for GPUs" ${default})
if(NOT TROUPE_CUDA)
  return()
endif()
if(NOT TROUPE_NVCC)
  message(FATAL_ERROR "There is no CUDA compiler: run scripts/setup, set "
    "TROUPE_CUDA_ROOT, or turn TROUPE_CUDA off.")
endif()

# By default, machine code for compute capability 8.x and for the GPUs of this
# machine, and code that a driver translates for all others when it loads it.
# "every", the default for packages: machine code for all that CUDA 13.0 supports
# from 8.0 on.
set(TROUPE_CUDA_ARCHITECTURES "" CACHE STRING
  "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES; every: all; empty: this machine's")
set(architectures ${TROUPE_CUDA_ARCHITECTURES})
if(architectures STREQUAL "every" OR (NOT architectures AND TROUPE_PACKAGE))
  set(architectures 80-real 86-real 87-real 88-real 89-real 90-real 100-real
    103-real 110-real 120-real 121)
elseif(NOT architectures)
  set(architectures 80)
  execute_process(
    COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
    list(TRANSFORM capabilities REPLACE "([0-9]+)\\.([0-9])" "\\1\\2-real")
    list(FILTER capabilities EXCLUDE REGEX "^8")
    list(APPEND architectures ${capabilities})
    list(REMOVE_DUPLICATES architectures)
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${architectures})
set(CMAKE_CUDA_COMPILER ${TROUPE_NVCC})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # we link the shared one by its path
set(CMAKE_CUDA_STANDARD 17)           # CMake 3.25 drops 20
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_DEBUG "-O1")     # -g would go for slow code on the device
if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()
enable_language(CUDA)

cmake_path(GET TROUPE_NVCC PARENT_PATH folder)
cmake_path(GET folder PARENT_PATH troupe_cuda_root)
find_file(TROUPE_CUDART libcudart.so.13 NO_DEFAULT_PATH REQUIRED
  PATHS ${troupe_cuda_root}/lib ${troupe_cuda_root}/lib64)
find_path(TROUPE_NCCL_INCLUDE nccl.h NO_DEFAULT_PATH REQUIRED
  HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} PATHS ${troupe_cuda_root}
    ${cached}/nccl PATH_SUFFIXES include)
find_file(TROUPE_NCCL libnccl.so.2 NO_DEFAULT_PATH REQUIRED
  HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} PATHS ${troupe_cuda_root}
    ${cached}/nccl PATH_SUFFIXES lib lib64)

function(troupe_nvidia_library name file)
  add_library(cuda::${name} SHARED IMPORTED)
  set_target_properties(cuda::${name} PROPERTIES IMPORTED_LOCATION ${file}
    INTERFACE_INCLUDE_DIRECTORIES "${ARGN}")
endfunction()

troupe_nvidia_library(runtime ${TROUPE_CUDART} ${troupe_cuda_root}/include
  ${troupe_cuda_root}/include/cccl)
troupe_nvidia_library(nccl ${TROUPE_NCCL} ${TROUPE_NCCL_INCLUDE})
troupe_torch_library(c10_cuda libc10_cuda.so torch::c10 cuda::runtime)
troupe_torch_library(cuda libtorch_cuda.so torch::cpu torch::c10_cuda)
