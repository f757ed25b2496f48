# libtroupe_cuda.so from engine/cuda/. Its interface to programs is in
# engine/device/: nothing links it. troupe::cuda provides its headers.
set(folder ${PROJECT_SOURCE_DIR}/engine/cuda)
add_library(troupe_cuda_headers INTERFACE)
add_library(troupe::cuda ALIAS troupe_cuda_headers)
target_link_libraries(troupe_cuda_headers INTERFACE
  troupe::device torch::cuda cuda::nccl)
troupe_header_checks(cuda engine/cuda)

# Kernels don't use LibTorch. No contraction to fused multiply-adds: the device
# must give the bits that the tests compute on the host.
file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu)
add_library(troupe_cuda_kernels OBJECT ${sources})
target_include_directories(troupe_cuda_kernels PRIVATE ${troupe_include})
target_link_libraries(troupe_cuda_kernels PRIVATE cuda::runtime)
target_compile_options(troupe_cuda_kernels PRIVATE
  --expt-relaxed-constexpr --fmad=false --threads=2
  "-Xcompiler=-Wall,-Wextra$<$<CXX_COMPILER_ID:GNU>:,-Wshadow=local>"
  $<$<BOOL:${TROUPE_WERROR}>:--Werror=all-warnings>)

# RPATH rather than RUNPATH, as it also applies to these libraries' own
# dependencies: NVIDIA's libraries for LibTorch need not be present to link.
file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
add_library(troupe_cuda MODULE ${sources}
  $<TARGET_OBJECTS:troupe_cuda_kernels>)
target_compile_features(troupe_cuda PRIVATE cxx_std_20)
target_link_libraries(troupe_cuda PRIVATE troupe_flags troupe::cuda)
target_link_options(troupe_cuda PRIVATE LINKER:--disable-new-dtags
  LINKER:--no-undefined LINKER:--allow-shlib-undefined LINKER:--no-as-needed)
troupe_precompile(troupe_cuda tensors)
cmake_path(GET TROUPE_NCCL PARENT_PATH nccl_folder)
cmake_path(GET TROUPE_CUDART PARENT_PATH runtime_folder)
set(nvidia ${TROUPE_TORCH_ROOT}/../nvidia)
cmake_path(NORMAL_PATH nvidia)
set(folders ${TROUPE_TORCH_ROOT}/lib ${nvidia}/cu13/lib ${nvidia}/nccl/lib
  ${nvidia}/cudnn/lib ${nvidia}/cusparselt/lib ${nvidia}/nvshmem/lib
  ${runtime_folder} ${nccl_folder})
list(REMOVE_DUPLICATES folders)
if(TROUPE_PACKAGE)
  list(TRANSFORM troupe_plugin_library_folders PREPEND $ORIGIN/ OUTPUT_VARIABLE folders)
  # nvcc names files in the symbol table by its process; a build ID is of what is linked.
  target_link_options(troupe_cuda PRIVATE LINKER:--strip-all)
endif()
set_target_properties(troupe_cuda PROPERTIES
  LINKER_LANGUAGE CXX CUDA_RESOLVE_DEVICE_SYMBOLS OFF
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${folders}"
  INSTALL_RPATH_USE_LINK_PATH OFF)
# Whoever builds the program alone can install it, too.
if(NOT TROUPE_PACKAGE)
  set(optional OPTIONAL)
endif()
install(TARGETS troupe_cuda LIBRARY DESTINATION lib/troupe COMPONENT runtime
  ${optional})
