# Inner loops that are compiled for several instruction sets; a machine uses the
# best that it supports.
#
# troupe_vector_code(COMPONENT FOLDER NAMES flags...)
# adds x86/*.cpp or portable/*.cpp of the folder to a component, and compiles
# those of NAME_plain.cpp, x86/NAME_avx2.cpp and x86/NAME_avx512.cpp that are
# there, for each NAME of the list, with these flags.
function(troupe_vector_code component folder names)
  set(folder ${PROJECT_SOURCE_DIR}/${folder})
  set(kind portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(kind x86)
  endif()
  foreach(name IN LISTS names)
    set_source_files_properties(${folder}/${name}_plain.cpp PROPERTIES
      COMPILE_OPTIONS "-O3;${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
    set_source_files_properties(${folder}/x86/${name}_avx2.cpp PROPERTIES
      COMPILE_OPTIONS "-O3;${ARGN};-mavx2;-mfma" SKIP_PRECOMPILE_HEADERS ON)
    set_source_files_properties(${folder}/x86/${name}_avx512.cpp PROPERTIES
      COMPILE_OPTIONS
        "-O3;${ARGN};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma"
      SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/${kind}/*.cpp)
  target_sources(troupe_${component} PRIVATE ${sources})
endfunction()
