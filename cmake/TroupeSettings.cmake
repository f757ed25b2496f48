# Language, warnings and output folders of this project's targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # programs share precompiled headers
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

include(TroupePackageSettings)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# A target that every target of this project links: flags that are not part of
# the package.
add_library(troupe_flags INTERFACE)
# Makes LibTorch's headers include only the operators that they use.
target_compile_definitions(troupe_flags INTERFACE AT_PER_OPERATOR_HEADERS)
target_compile_options(troupe_flags INTERFACE
  -Wall -Wextra -Wpedantic $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
  -Wnon-virtual-dtor -Wcast-qual $<$<BOOL:${TROUPE_WERROR}>:-Werror>)

# Several sources of a target compile as one, as they include the same headers: a
# cold build takes half the time. Without it an edited source compiles alone.
# TroupeUnity.cmake does it when all targets are known.
if(TROUPE_UNITY)
  include(TroupeUnity)
  cmake_language(DEFER CALL troupe_unite_targets)
  # The first one warns of a source because it is included. The others are false
  # positives of gcc 12 about moved strings, where more is inlined.
  target_compile_options(troupe_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-restrict>)
endif()

if(TROUPE_SANITIZER)
  add_compile_options(-fsanitize=${TROUPE_SANITIZER} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TROUPE_SANITIZER})
  if(TROUPE_SANITIZER STREQUAL thread)
    # Boost.Asio has fences, which gcc's thread sanitizer doesn't support.
    add_compile_options(-Wno-tsan)
  endif()
endif()

# Coverage for the fuzzers, in everything, so set before any target.
if(TROUPE_FUZZ)
  add_compile_options(-fsanitize-coverage=trace-pc,trace-cmp)
endif()

# Headers and sources are in the same folders; this link provides the include
# path of an installation: troupe/schedules/op.hpp.
set(troupe_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${troupe_include})
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${troupe_include}/troupe SYMBOLIC)
