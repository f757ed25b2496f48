# What `troupe --version` says besides the version: the versions of what it is built
# with, when CMake configures, and the commit, when it builds.
#
# TROUPE_COMMIT is for sources without their repository.
set(TROUPE_COMMIT "" CACHE STRING "The commit of sources without a repository")

# Of `#define NAME 2` lines, the numbers, joined by dots.
function(troupe_defined_version result header)
  set(numbers)
  foreach(name ${ARGN})
    file(STRINGS ${header} line REGEX "^#define +${name} +[0-9]+")
    string(REGEX REPLACE "^#define +${name} +([0-9]+).*" "\\1" number "${line}")
    list(APPEND numbers ${number})
  endforeach()
  list(JOIN numbers "." text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(cuda "")
set(nccl "")
set(torch "")
set(caf "")
if(NOT TROUPE_PLAN_ONLY)
  set(torch ${TROUPE_TORCH_VERSION})
  set(caf ${CAF_VERSION})
  if(TROUPE_CUDA)
    troupe_defined_version(cuda ${troupe_cuda_root}/include/cuda_runtime_api.h
      CUDART_VERSION)
    string(REGEX REPLACE "^([0-9]+)0([0-9])0$" "\\1.\\2" cuda "${cuda}")
    troupe_defined_version(nccl ${TROUPE_NCCL_INCLUDE}/nccl.h
      NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
  endif()
endif()
file(CONFIGURE OUTPUT ${troupe_include}/troupe_build.hpp CONTENT
"#pragma once
#define TROUPE_BUILT_WITH_LIBTORCH \"${torch}\"
#define TROUPE_BUILT_WITH_CUDA \"${cuda}\"
#define TROUPE_BUILT_WITH_NCCL \"${nccl}\"
#define TROUPE_BUILT_WITH_CAF \"${caf}\"
")

# Makes troupe_commit.hpp again when the repository has another commit.
function(troupe_add_facts target)
  set(log)
  find_package(Git QUIET)
  if(NOT TROUPE_COMMIT AND GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE log ERROR_QUIET
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    cmake_path(ABSOLUTE_PATH log BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(NOT EXISTS ${log} OR IS_DIRECTORY ${log})
      set(log)
    endif()
  endif()
  set(header ${troupe_include}/troupe_commit.hpp)
  add_custom_command(OUTPUT ${header} DEPENDS ${log} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D GIT=${GIT_EXECUTABLE} -D COMMIT=${TROUPE_COMMIT}
      -D FOLDER=${PROJECT_SOURCE_DIR} -D HEADER=${header}
      -P ${PROJECT_SOURCE_DIR}/cmake/TroupeCommit.cmake)
  target_sources(${target} PRIVATE ${header})
endfunction()
