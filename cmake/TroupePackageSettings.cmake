# What differs where scripts/package builds: relative search paths of libraries, and
# no path of this machine in what is compiled.
#
# The layout of all packages, below a folder that may be moved:
#   bin/           the programs
#   lib/troupe/    libtroupe_cuda.so, and libraries that the system may not have
#   include/, lib/, lib/cmake/troupe/    for development
#   share/
# LibTorch is in lib/troupe/torch, with NVIDIA's libraries in lib/troupe/nvidia,
# where troupe-libtorch puts them; in a wheel it is torch beside the package.
set(TROUPE_PACKAGE "" CACHE STRING "wheel or system, in builds of scripts/package")
if(NOT TROUPE_PACKAGE)
  return()
endif()
include(TroupeCache)
set(troupe_torch_of_lib_troupe torch)
if(TROUPE_PACKAGE STREQUAL wheel)
  set(troupe_torch_of_lib_troupe ../../../torch)
endif()

set(CMAKE_INSTALL_LIBDIR lib)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH OFF)
set(paths lib/troupe lib/troupe/${troupe_torch_of_lib_troupe}/lib)
foreach(path ${paths})
  cmake_path(NORMAL_PATH path)
  list(APPEND CMAKE_INSTALL_RPATH $ORIGIN/../${path})
endforeach()
set(troupe_plugin_library_folders ${troupe_torch_of_lib_troupe}/lib)
foreach(name cu13 nccl cudnn cusparselt nvshmem)
  set(path ${troupe_torch_of_lib_troupe}/../nvidia/${name}/lib)
  cmake_path(NORMAL_PATH path)
  list(APPEND troupe_plugin_library_folders ${path})
endforeach()
# RPATH, as LibTorch has it: it holds for the libraries' own dependencies, too, and
# LD_LIBRARY_PATH does not go before it.
add_link_options(LINKER:--disable-new-dtags)
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>"
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${TROUPE_CACHE}=cache>"
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_BINARY_DIR}=build>"
  # ccache replaces the build's folder in arguments, so that it is no prefix there.
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_BINARY_DIR}/=>")
