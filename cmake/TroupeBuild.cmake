# How the presets build: ccache, mold. Presets include this file
# (CMAKE_PROJECT_TOP_LEVEL_INCLUDES); without them, and in another project, the
# compiler, its flags and the linker are the user's.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_MESSAGE NEVER)

# Lets a second clone elsewhere on the machine use the first one's cache, also
# with precompiled headers.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${CCACHE_PROGRAM})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# Not for fuzzing: mold 1.10 may abort over that many strings of debug information
# ("ConcurrentMap is full").
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT TROUPE_FUZZ)
  add_link_options(-fuse-ld=mold)
endif()

# Where memory allows, g++ collects no garbage before 2 GB: collecting takes a
# tenth of its time.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)  # MiB
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_per_job "${memory} / ${cores}")
if(memory_per_job GREATER 3000)
  add_compile_options(
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=2000000>)
endif()
