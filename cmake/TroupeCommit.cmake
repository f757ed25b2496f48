# Writes HEADER with the commit of FOLDER, or COMMIT if it is given.
if(NOT COMMIT AND GIT)
  execute_process(COMMAND ${GIT} -C ${FOLDER} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE COMMIT ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT
  "#pragma once\n#define TROUPE_COMMIT \"${COMMIT}\"\n")
