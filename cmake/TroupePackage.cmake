# What packages have beside an installation's files, and CPack's settings. Install
# components:
#   runtime      programs, libtroupe_cuda.so, the tokenizer
#   development  headers, libraries, CMake files
#   bundled      libraries that Debian has as packages: for wheel and tarball
#   documents    licences, bill of materials, changelog
#   system       for wheel not: manual page, completion, troupe-libtorch
#   debian       what Debian's packages need
include(TroupeBundle)
include(TroupeBill)
set(source ${PROJECT_SOURCE_DIR})

install(PROGRAMS ${source}/scripts/tokenize DESTINATION share/troupe/tokenize
  COMPONENT runtime)
install(DIRECTORY ${source}/scripts/tokenizing DESTINATION share/troupe/tokenize
  COMPONENT runtime FILES_MATCHING PATTERN *.py)
if(TROUPE_PACKAGE STREQUAL wheel)
  return()
endif()

# Made by the program, of the declarations of its flags.
set(generated ${PROJECT_BINARY_DIR}/package_files)
file(MAKE_DIRECTORY ${generated})
set(troupe $<TARGET_FILE:troupe>)
add_custom_command(OUTPUT ${generated}/troupe.1.gz DEPENDS troupe troupe-runtime VERBATIM
  COMMAND sh -c "\"$1\" help --man | gzip -9n > \"$2\"" - ${troupe}
    ${generated}/troupe.1.gz)
set(files ${generated}/troupe.1.gz)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${generated}/troupe.${shell} DEPENDS troupe troupe-runtime
    COMMAND ${troupe} completion ${shell} > ${generated}/troupe.${shell})
  list(APPEND files ${generated}/troupe.${shell})
endforeach()
add_custom_target(troupe_shell_files ALL DEPENDS ${files})
install(FILES ${generated}/troupe.1.gz DESTINATION share/man/man1 COMPONENT system)
install(FILES ${generated}/troupe.bash COMPONENT system
  DESTINATION share/bash-completion/completions RENAME troupe)
install(FILES ${generated}/troupe.zsh COMPONENT system
  DESTINATION share/zsh/vendor-completions RENAME _troupe)
install(FILES ${generated}/troupe.fish COMPONENT system
  DESTINATION share/fish/vendor_completions.d RENAME troupe.fish)

file(CREATE_LINK ../share/troupe/tokenize/tokenize ${generated}/troupe-tokenize SYMBOLIC)
install(FILES ${generated}/troupe-tokenize DESTINATION bin COMPONENT system)
install(PROGRAMS ${source}/packaging/troupe-libtorch DESTINATION bin
  COMPONENT system)
install(FILES ${source}/packaging/libtorch_wheels.txt DESTINATION share/troupe
  COMPONENT system)

# Debian's changelog and copyright, for each package.
string(TIMESTAMP time "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(contact "The authors of troupe <noreply@github.com>")
file(CONFIGURE OUTPUT ${generated}/changelog CONTENT
"troupe (${PROJECT_VERSION}) unstable; urgency=medium

  * CHANGELOG.md in this folder says what is new.

 -- ${contact}  ${time}
")
execute_process(COMMAND gzip -9nf ${generated}/changelog)
file(WRITE ${generated}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: troupe
Comment: licences/ in this folder has those of the libraries that are linked in.

Files: *
Copyright: 2026 The authors of troupe
License: Apache-2.0
 On Debian systems, the full text of the Apache License, Version 2.0, is in the
 file /usr/share/common-licenses/Apache-2.0.
")
foreach(package troupe troupe-dev)
  set(component debian)
  if(package STREQUAL troupe-dev)
    set(component debian_dev)
  endif()
  install(FILES ${generated}/changelog.gz ${generated}/copyright
    DESTINATION share/doc/${package} COMPONENT ${component})
endforeach()

set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_CONTACT "${contact}")
set(CPACK_PACKAGE_VENDOR troupe)
set(CPACK_PACKAGE_FILE_NAME
  troupe-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_STRIP_FILES ON)
# Where dpkg-shlibdeps finds the libraries that no package has.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TROUPE_TORCH_ROOT}/lib)
foreach(library ${TROUPE_CUDART} ${TROUPE_NCCL})
  cmake_path(GET library PARENT_PATH folder)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
endforeach()
set(CPACK_THREADS 1)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${source}/cmake/TroupeCPack.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${source}/cmake/TroupePackageTimes.cmake)
set(CPACK_DEBIAN_MAIN_DESCRIPTION
"troupe splits a model into stages, compiles a pipeline schedule into a plan
that it proves, simulates, draws and executes, and trains with the bits of
a plain loop. LibTorch is not a part of this package: troupe-libtorch gets
it.")
set(CPACK_DEBIAN_DEV_DESCRIPTION
"Headers, static libraries and CMake files for programs that train, plan or
watch runs with troupe in C++.")
include(CPack)
foreach(name runtime system documents debian)
  cpack_add_component(${name} GROUP main)
endforeach()
foreach(name development debian_dev)
  cpack_add_component(${name} GROUP dev)
endforeach()
cpack_add_component_group(main)
cpack_add_component_group(dev)
