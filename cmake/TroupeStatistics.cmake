# The inner loops of engine/events/statistics.hpp: the same code, compiled for
# several instruction sets; a machine uses the best that it supports. All give
# the same bits, hence no contraction to fused multiply-adds.
set(folder ${PROJECT_SOURCE_DIR}/engine/events)

function(troupe_statistics_kernels file)
  set_source_files_properties(${folder}/${file} PROPERTIES
    COMPILE_OPTIONS "-O3;-ffp-contract=off;${ARGN}"
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()

troupe_statistics_kernels(statistics_plain.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(kind x86)
  troupe_statistics_kernels(x86/statistics_avx2.cpp -mavx2)
  troupe_statistics_kernels(x86/statistics_avx512.cpp
    -mavx512f -mavx512bw -mavx512dq -mavx512vl)
else()
  set(kind portable)
endif()
file(GLOB sources CONFIGURE_DEPENDS ${folder}/${kind}/*.cpp)
target_sources(troupe_events PRIVATE ${sources})
