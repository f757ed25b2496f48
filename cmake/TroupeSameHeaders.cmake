# What is compiled with headers of another version than the library that it is linked
# with, or loads, has other layouts of classes. Two checks compare sums of headers:
# - a program that includes an umbrella header refers to a symbol, whose name contains the
#   sum and which the library defines, so that the linker refuses it;
# - programs refuse to load an accelerator library (engine/device/load_accelerator.hpp).

# troupe_header_sum(TARGET NAME HEADERS headers [MORE text])
# generates include/NAME of cmake/NAME.in, for the target and those that link it.
function(troupe_header_sum target name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "MORE" "HEADERS")
  set(script ${PROJECT_SOURCE_DIR}/cmake/TroupeHeaderSum.cmake)
  set(template ${PROJECT_SOURCE_DIR}/cmake/${name}.in)
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  list(JOIN arg_HEADERS "|" headers)
  add_custom_command(OUTPUT ${troupe_include}/${name}
    COMMAND ${CMAKE_COMMAND} -DTEMPLATE=${template} -DOUTPUT=${troupe_include}/${name}
      -DFOLDER=${PROJECT_SOURCE_DIR} -DHEADERS=${headers} -DMORE=${arg_MORE} -P ${script}
    DEPENDS ${files} ${template} ${script}
    COMMENT "Summing up headers: ${name}" VERBATIM)
  target_sources(${target} PRIVATE ${troupe_include}/${name})
endfunction()

function(troupe_sum_public_headers)
  file(STRINGS ${PROJECT_SOURCE_DIR}/include/public_headers.txt headers REGEX "^[^#]")
  troupe_header_sum(troupe_base troupe_headers.hpp HEADERS ${headers})
  install(FILES ${troupe_include}/troupe_headers.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
endfunction()

# Of what crosses the interface of an accelerator library.
function(troupe_sum_device_headers)
  set(globs base/*.hpp engine/device/*.hpp engine/events/*.hpp)
  list(TRANSFORM globs PREPEND ${PROJECT_SOURCE_DIR}/)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${globs})
  troupe_header_sum(troupe_device troupe_device_headers.hpp HEADERS ${headers}
    MORE ${TROUPE_TORCH_VERSION})
endfunction()
