# Packages of the system; scripts/setup sources this.

# A package, or alternatives, of which the first one is chosen whose candidate is
# not older than the version (@: a function here gets it from elsewhere; ?: it is
# optional); how to detect it; the variable that points CMake at another
# installation.
requirements=(
  "g++,g++-12>=12        compiler:"
  "cmake,@cmake>=3.25    cmake:3.25"
  "ninja-build           tool:ninja"
  "git                   tool:git"
  "ccache?               tool:ccache"
  "mold?                 tool:mold"
  "clang-format?         tool:clang-format"
  "python3               tool:python3"
  "python3-pip           pip:"
  "libfmt-dev            header:fmt/format.h        fmt_DIR"
  "libspdlog-dev         header:spdlog/spdlog.h     spdlog_DIR"
  "nlohmann-json3-dev    header:nlohmann/json.hpp   nlohmann_json_DIR"
  "libcli11-dev          header:CLI/CLI.hpp         CLI11_DIR"
  "libtomlplusplus-dev,@tomlplusplus  header:toml++/toml.h  tomlplusplus_DIR"
  "libboost-dev,libboost1.81-dev,@boost>=1.81  header:boost/asio/as_tuple.hpp  Boost_DIR"
  "libssl-dev            header:openssl/ssl.h       OPENSSL_ROOT_DIR"
  "libcatch2-dev,catch2,@catch2>=3  header:catch2/catch_test_macros.hpp  Catch2_DIR"
  "libtcmalloc-minimal4,libtcmalloc-minimal4t64?  library:libtcmalloc_minimal.so.4"
  "bible-kjv?            tool:bible"
)

has_header() {
  local with
  with=$(compiler) || return 1
  printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
    "$with" -I "$cache/headers/include" -I "$cache/catch2-$catch2_version/include" \
      -E -x c++ - >/dev/null 2>&1
}

has_cmake() { # VERSION
  command -v cmake >/dev/null && printf 'cmake version %s\n%s\n' "$1" \
    "$(cmake --version | head -n 1)" | sort --check=quiet --version-sort
}

has_library() {
  local known
  known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
  [[ $known == *"$1"* ]]
}

is_there() { # KIND:WHAT VARIABLE
  local kind=${1%%:*} what=${1#*:}
  if [[ -n ${2:-} && -n ${!2:-} ]]; then return 0; fi
  case $kind in
    compiler) compiler >/dev/null ;;
    cmake) has_cmake "$what" ;;
    tool) command -v "$what" >/dev/null ;;
    pip) python3 -m pip --version >/dev/null 2>&1 || [[ -n ${Torch_DIR:-} ]] ||
      [[ -d $cache/libtorch-$torch_version ]] ;;
    header) has_header "$what" ;;
    library) has_library "$what" ;;
  esac
}

missing_packages() {
  local line packages probe variable
  for line in "${requirements[@]}"; do
    read -r packages probe variable <<<"$line"
    is_there "$probe" "$variable" || echo "$packages"
  done
}

candidate() { # PACKAGE -> the version that apt would install, or nothing
  apt-cache policy "$1" 2>/dev/null |
    sed -n 's/^ *Candidate: \([0-9]*:\)\?//p' | grep -vxF '(none)'
}

# The package of a requirement that this system has, or @NAME; nothing if an
# optional one is missing.
choose_package() { # PACKAGES
  local names=${1%\?} name version minimum=0
  if [[ $names == *">="* ]]; then minimum=${names#*>=}; fi
  names=${names%%>=*}
  for name in ${names//,/ }; do
    if [[ $name == @* ]]; then echo "$name" && return; fi
    version=$(candidate "$name") || continue
    if dpkg --compare-versions "$version" ge "$minimum"; then
      echo "$name" && return
    fi
  done
  [[ $1 == *\? ]] || die "this system has no package for $1"
}

as_root() { if [[ $EUID == 0 ]]; then "$@"; else sudo -n "$@"; fi; }

may_use_apt() {
  [[ $with_apt == yes ]] && command -v apt-get >/dev/null &&
    { [[ $EUID == 0 ]] || sudo -n true 2>/dev/null; }
}

explain_missing() {
  {
    say "these are missing, and apt may not be used here:"
    printf '  %s\n' "$@"
    cat <<'END'
Names are those of Debian's packages. Install them by other means, or ask
someone who may:
END
    echo "  apt-get install --no-install-recommends $*"
    cat <<'END'
Libraries that lie elsewhere are found through the folder of their CMake
configuration: fmt_DIR, spdlog_DIR, nlohmann_json_DIR, CLI11_DIR, Catch2_DIR,
CAF_DIR, Torch_DIR, tomlplusplus_DIR, Boost_DIR. Export them and run this again.
END
  } >&2
  exit 1
}

# A mirror that is some days old still has packages, and their signatures.
any_age=(-o Acquire::Check-Valid-Until=false -o Acquire::Check-Date=false)

update_index() {
  local update=(apt-get update -qq -o DPkg::Lock::Timeout=600)
  as_root "${update[@]}" || {
    say "system packages: trying again with an index that may have expired"
    as_root "${update[@]}" "${any_age[@]}"
  }
}

install_packages() { # PACKAGE...
  (($# > 0)) || return 0
  say "system packages: installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 \
    "$@" >/dev/null
}

# Sorts what is missing into what apt installs and what comes from elsewhere.
choose_packages() { # PACKAGES...
  local each choice
  for each in "$@"; do
    choice=$(choose_package "$each")
    case $choice in
      "") say "system packages: going on without ${each%%[,?]*}" ;;
      @*) elsewhere+=("${choice#@}") ;;
      *) packages+=("$choice") ;;
    esac
  done
}

choose_without_apt() { # PACKAGES...
  local each
  for each in "$@"; do
    case $each in
      *,@*) each=${each##*,@} && elsewhere+=("${each%%>=*}") ;;
      *\?) say "system packages: going on without ${each%%[,?]*}" ;;
      *) packages+=("${each%%[,>]*}") ;;
    esac
  done
  ((${#packages[@]} == 0)) || explain_missing "${packages[@]}"
}

system_packages() {
  local missing packages=() elsewhere=() each
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "system packages: all there"
    return
  fi
  if may_use_apt; then
    update_index
    choose_packages "${missing[@]}"
    install_packages "${packages[@]}"
  else
    choose_without_apt "${missing[@]}"
  fi
  for each in "${elsewhere[@]}"; do timed "$each" "get_$each"; done
  mapfile -t missing < <(missing_packages | grep -v '?$')
  ((${#missing[@]} == 0)) || die "still not usable: ${missing[*]}"
}
