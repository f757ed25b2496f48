# The folder that scripts/setup fills.
if(DEFINED ENV{TROUPE_CACHE})
  set(TROUPE_CACHE $ENV{TROUPE_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(TROUPE_CACHE $ENV{XDG_CACHE_HOME}/troupe)
else()
  set(TROUPE_CACHE $ENV{HOME}/.cache/troupe)
endif()
