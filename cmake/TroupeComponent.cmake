# troupe_component(NAME DIRECTORY folder [SUBFOLDERS names] DEPENDS targets
#                  [PRIVATE targets] [PCH kind] [INTERNAL])
# makes troupe_NAME, alias troupe::NAME, of the .cpp files, but main.cpp, of the
# folder and of those of its subfolders that are no components of their own.
# PRIVATE is for header-only libraries that no header of the component includes;
# an INTERNAL component is a part of programs and is not installed.
function(troupe_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "DIRECTORY;PCH"
    "SUBFOLDERS;DEPENDS;PRIVATE")
  set(folder ${PROJECT_SOURCE_DIR}/${arg_DIRECTORY})
  set(folders ${arg_DIRECTORY})
  foreach(each ${arg_SUBFOLDERS})
    list(APPEND folders ${arg_DIRECTORY}/${each})
  endforeach()
  list(TRANSFORM folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.cpp"
    OUTPUT_VARIABLE globs)
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  list(REMOVE_ITEM sources ${folder}/main.cpp)
  set(scope PUBLIC)
  set(kind STATIC)
  if(NOT sources)
    set(scope INTERFACE)
    set(kind INTERFACE)
  endif()
  set(target troupe_${name})
  add_library(${target} ${kind} ${sources})
  add_library(troupe::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${troupe_include}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS})
  if(sources)
    target_link_libraries(${target} PRIVATE
      $<BUILD_INTERFACE:troupe_flags> $<BUILD_INTERFACE:${arg_PRIVATE}>)
    troupe_precompile(${target} "${arg_PCH}")
  endif()
  if(NOT arg_INTERNAL)
    troupe_install_component(${target} ${arg_DIRECTORY})
  endif()
  troupe_header_checks(${name} "${folders}" ${arg_PRIVATE})
endfunction()

# Adds to a target the table of registered_models: of each NAME_model.cpp in the
# folder, which defines `model_entry NAME_model()`.
function(troupe_model_table target folder)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*_model.cpp)
  foreach(file ${files})
    cmake_path(GET file STEM name)
    string(APPEND declarations "model_entry ${name}();\n")
    string(APPEND entries "    ${name}(),\n")
  endforeach()
  set(table ${PROJECT_BINARY_DIR}/${target}_table.cpp)
  file(CONFIGURE OUTPUT ${table} CONTENT
"#include \"troupe/${folder}/registry.hpp\"
namespace troupe {
${declarations}
std::vector<model_entry>& registered_models() {
  static std::vector<model_entry> entries{
${entries}  };
  return entries;
}
}
")
  target_sources(${target} PRIVATE ${table})
endfunction()

# troupe_program(TARGET SOURCES files DEPENDS targets [OUTPUT path] [PCH kind])
# makes an executable in the build's bin folder.
function(troupe_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT;PCH" "SOURCES;DEPENDS")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE troupe_flags ${arg_DEPENDS})
  if(arg_OUTPUT)
    cmake_path(GET arg_OUTPUT PARENT_PATH folder)
    cmake_path(GET arg_OUTPUT FILENAME name)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${folder})
  endif()
  if(TCMALLOC_LIBRARY AND NOT TROUPE_SANITIZER)
    target_link_options(${target} PRIVATE
      LINKER:--push-state,--no-as-needed ${TCMALLOC_LIBRARY} LINKER:--pop-state)
  endif()
  troupe_precompile(${target} "${arg_PCH}")
endfunction()

# troupe_programs(FOLDER DEPENDS targets [PCH kind])
# makes bin/FOLDER/NAME of each FOLDER/NAME.cpp and each folder FOLDER/NAME.
function(troupe_programs folder)
  file(GLOB entries CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*)
  foreach(entry ${entries})
    cmake_path(GET entry STEM name)
    set(sources ${entry})
    if(IS_DIRECTORY ${entry})
      file(GLOB sources CONFIGURE_DEPENDS ${entry}/*.cpp)
    endif()
    if(sources MATCHES "\\.cpp")
      troupe_program(${folder}_${name} SOURCES ${sources}
        OUTPUT ${folder}/${name} ${ARGN})
    endif()
  endforeach()
endfunction()

# Gives a target the precompiled header of a kind, which a target of its own
# builds. The target must find all that the header includes: clang opens these
# files again.
function(troupe_precompile target kind)
  if(kind)
    target_precompile_headers(${target} REUSE_FROM troupe_pch_${kind})
  endif()
endfunction()

# troupe_precompiled_header(KIND DEPENDS targets HEADERS headers)
function(troupe_precompiled_header kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;HEADERS")
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/pch/${kind}.cpp CONTENT "")
  set(target troupe_pch_${kind})
  add_library(${target} STATIC ${PROJECT_BINARY_DIR}/pch/${kind}.cpp)
  target_link_libraries(${target} PRIVATE troupe_flags ${arg_DEPENDS})
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
endfunction()

# A target check_headers: compiles every header of a component's folders alone,
# with its users' flags and no precompiled header.
function(troupe_header_checks name folders)
  list(TRANSFORM folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.hpp"
    OUTPUT_VARIABLE globs)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${globs})
  if(NOT headers)
    return()
  endif()
  set(sources)
  foreach(header ${headers})
    set(source ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"troupe/${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(headers_${name} OBJECT EXCLUDE_FROM_ALL ${sources})
  target_compile_options(headers_${name} PRIVATE -O0)
  target_link_libraries(headers_${name} PRIVATE troupe_flags troupe::${name}
    ${ARGN})
  if(NOT TARGET check_headers)
    add_custom_target(check_headers)
  endif()
  add_dependencies(check_headers headers_${name})
endfunction()
