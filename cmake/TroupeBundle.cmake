# The libraries that packages have beside troupe's own: install component development
# has CAF, of which troupe is built; bundled has what Debian's packages depend on.
configure_file(${PROJECT_SOURCE_DIR}/cmake/troupe-bundled.cmake.in
  ${PROJECT_BINARY_DIR}/troupe-bundled.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/troupe-bundled.cmake
  DESTINATION ${troupe_package_folder} COMPONENT development)

get_target_property(file CAF::core LOCATION)
install(FILES ${file} DESTINATION lib/troupe COMPONENT development)
get_target_property(folders CAF::core INTERFACE_INCLUDE_DIRECTORIES)
list(GET folders 0 folder)
install(DIRECTORY ${folder}/caf DESTINATION include/troupe-bundled
  COMPONENT development FILES_MATCHING PATTERN *.hpp)
find_path(TROUPE_FMT_INCLUDE fmt/format.h REQUIRED)
install(DIRECTORY ${TROUPE_FMT_INCLUDE}/fmt DESTINATION include/troupe-bundled
  COMPONENT bundled)

# The shared libraries of the programs, but for those of every system (glibc, g++) and
# for LibTorch and NVIDIA's, which have their own packages.
install(CODE "set(programs $<TARGET_FILE:troupe> $<TARGET_FILE:troupe-runtime>)"
  COMPONENT bundled)
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs}
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^ld-"
      "^lib(c|m|dl|rt|pthread|stdc[+][+]|gcc_s|gomp|c10|torch.*|cu.*|nv.*)[.]so")
  foreach(library ${found})
    cmake_path(GET library FILENAME name)
    file(REAL_PATH ${library} file)
    file(INSTALL FILES ${file} RENAME ${name}
      DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/troupe
      PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endforeach()
]] COMPONENT bundled)
