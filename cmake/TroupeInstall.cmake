# cmake --install makes an installation: the public headers in include/troupe, the
# libraries, the programs, and the files for find_package(troupe). Components of
# troupe that need neither LibTorch nor CAF are exported separately, so that they can
# be used alone. Its parts are CMake's install components runtime and development;
# scripts/package makes packages of these and of those in TroupePackage.cmake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(troupe_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)

function(troupe_install_component target folder)
  set(export troupe-runtime)
  if(target MATCHES "_(base|schedules|plan)$")
    set(export troupe-plan)
  endif()
  string(REPLACE troupe_ "" name ${target})
  set_property(GLOBAL APPEND PROPERTY troupe_components ${name})
  install(TARGETS ${target} EXPORT ${export}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  set_property(GLOBAL APPEND PROPERTY troupe_folders ${folder})
endfunction()

# The headers of include/public_headers.txt that are of installed components,
# and the umbrella headers.
function(troupe_install_headers)
  set(list ${PROJECT_SOURCE_DIR}/include/public_headers.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} headers REGEX "^[^#]")
  get_property(folders GLOBAL PROPERTY troupe_folders)
  list(JOIN folders "|" folders)
  set(umbrellas "include/troupe/")
  if(TROUPE_PLAN_ONLY)
    set(umbrellas "include/troupe/plan[.]hpp$")
  endif()
  list(FILTER headers INCLUDE REGEX "^((${folders})/|${umbrellas})")
  foreach(header ${headers})
    string(REGEX REPLACE "^include/troupe/" "" target ${header})
    cmake_path(GET target PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/${folder}
      COMPONENT development)
  endforeach()
endfunction()

function(troupe_install_package)
  troupe_install_headers()
  get_property(components GLOBAL PROPERTY troupe_components)
  list(JOIN components ", " components)
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/troupe-config.cmake.in
    ${PROJECT_BINARY_DIR}/troupe-config.cmake
    INSTALL_DESTINATION ${troupe_package_folder})
  write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/troupe-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/troupe-config.cmake
    ${PROJECT_BINARY_DIR}/troupe-config-version.cmake
    ${PROJECT_SOURCE_DIR}/cmake/TroupeCache.cmake
    ${PROJECT_SOURCE_DIR}/cmake/TroupeTorch.cmake
    DESTINATION ${troupe_package_folder} COMPONENT development)
  install(EXPORT troupe-plan NAMESPACE troupe::
    DESTINATION ${troupe_package_folder} COMPONENT development)
  if(NOT TROUPE_PLAN_ONLY)
    install(EXPORT troupe-runtime NAMESPACE troupe::
      DESTINATION ${troupe_package_folder} COMPONENT development)
  endif()
  foreach(program troupe troupe-runtime)
    if(TARGET ${program})
      install(TARGETS ${program} RUNTIME COMPONENT runtime)
    endif()
  endforeach()
endfunction()
