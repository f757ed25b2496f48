# Libraries that are built from source, and replacements for packages of the
# system that are too old; scripts/setup sources this.

cmake_wheels=(
  cmake==$cmake_version
  2f766bb46367e5e0559fa33184653754bce044583a06014dcaebf8e6dff8a1f1
)
# Packages of Ubuntu 24.04.
boost_sha256=747b364a7d578babed9efa4c40446be4ba3470ac5b2c9951b0e3bde3d7bb47d6
tomlplusplus_sha256=e6d68dbb89f11c71fc33bd1397ab1b405e83e96b959e5c18ef82871c12051c46

# For each source: the package of Debian and Ubuntu, the release archive, and the
# hash of the tar itself, which the archive and the package contain with different
# compression.
declare -A source_package=([caf]=actor-framework [catch2]=catch2)
declare -A source_version=([caf]=$caf_version [catch2]=$catch2_version)
declare -A source_url=(
  [caf]=https://github.com/actor-framework/actor-framework/archive/refs/tags/$caf_version.tar.gz
  [catch2]=https://github.com/catchorg/Catch2/archive/refs/tags/v$catch2_version.tar.gz
)
declare -A source_sha256=(
  [caf]=e07104e98e2162324d94b330c5ad487ef1eb0c623a84b53b86eb1e6d55214899
  [catch2]=4be7e434e9e6aabe628a6e9048194dde893d88c1d524d635bd9471c5b1bde00d
)
# The suites that have this version, by system.
declare -A source_suites=(
  [debian.caf]="experimental sid trixie"
  [debian.catch2]="trixie sid"
  [ubuntu.catch2]="questing resolute"
)

# The system's ID of os-release, if its suites can be read: debian or ubuntu.
system_id() {
  local id
  command -v apt-get >/dev/null || return 1
  id=$(. /etc/os-release && echo "${ID:-}")
  [[ $id == debian || $id == ubuntu ]] && echo "$id"
}

# Runs apt with a single source: this machine's mirror, another suite. Its
# results are checked against a SHA-256 here, so an expired index will do.
private_apt() { # TYPE SUITE COMMAND...
  local type=$1 suite=$2 uri codename id components=main state="$cache/tmp/$1-$2"
  shift 2
  id=$(system_id) || return 1
  if [[ $id == ubuntu ]]; then components="main universe"; fi
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  uri=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" \
    "Release: $codename" 2>/dev/null | head -n 1)
  [[ -n $uri ]] || return 1
  local options=(-o Dir::Etc::sourcelist="$state/one.list"
    -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$state/lists"
    -o APT::Sandbox::User=root "${any_age[@]}"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  if [[ ! -d $state ]]; then
    mkdir -p "$state/lists/partial"
    local keys="/usr/share/keyrings/$id-archive-keyring.gpg"
    echo "$type [signed-by=$keys] $uri $suite $components" >"$state/one.list"
  fi
  if [[ ! -f $state/updated ]]; then
    apt-get "${options[@]}" -qq update || return 1
    touch "$state/updated"
  fi
  "$@" "${options[@]}"
}

check_sum() { # SHA256 FILE
  echo "$1  $2" | sha256sum --quiet --check - || die "wrong checksum: $2"
}

# Each function puts an archive of the source at the path, or fails.
source_from_downloads() { # NAME PATH
  local file
  while read -r file; do
    cp "$file" "$2" && return
  done < <(find "${TROUPE_DOWNLOADS:-/nonexistent}"/ -maxdepth 1 -iname \
    "${source_package[$1]}*${source_version[$1]}*.tar.gz" 2>/dev/null)
  return 1
}

source_from_release() { # NAME PATH
  python3 - "${source_url[$1]}" "$2" <<'END'
import shutil, sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer, \
            open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)
except OSError as reason:
    sys.exit(f"  {reason}")
END
}

# Uses the first suite that has this version.
source_from_packages() { # NAME PATH
  local id suite folder="$cache/tmp/source-package" package=${source_package[$1]}
  id=$(system_id) || return 1
  for suite in ${source_suites[$id.$1]:-}; do
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && private_apt deb-src "$suite" apt-get -qq source \
      --tar-only --download-only "$package/$suite") || continue
    cp "$folder/${package}_${source_version[$1]}".orig.tar.gz "$2" && return
  done
  return 1
}

source_archive() { # NAME -> path of the archive
  local name=$1 file place sum part="$cache/tmp/source.tar.gz"
  file="$cache/downloads/${source_package[$1]}-${source_version[$1]}.tar.gz"
  for place in "TROUPE_DOWNLOADS:downloads" "its release archive:release" \
    "the system's package of its source:packages"; do
    [[ ! -f $file ]] || break
    "source_from_${place##*:}" "$name" "$part" >&2 || continue
    sum=$(gzip -dc "$part" | sha256sum | cut -d ' ' -f 1) || sum=unreadable
    if [[ $sum == "${source_sha256[$name]}" ]]; then
      say "$name: source from ${place%:*}" >&2
      mv "$part" "$file"
    else
      say "$name: ${place%:*} gave another file; going on without it" >&2
    fi
  done
  [[ -f $file ]] || die "$name: the source of ${source_version[$name]} was found" \
    "nowhere. Fetch ${source_url[$name]} by other means and name its folder in" \
    "TROUPE_DOWNLOADS, or build it (static, PIC) and export its CMake folder as" \
    "CAF_DIR or Catch2_DIR"
  echo "$file"
}

# Builds a source and installs it in a folder of the cache.
build_source() { # NAME FOLDER CMAKE-OPTION...
  local name=$1 folder="$cache/$2" source="$cache/tmp/$2-source" tarball launcher=()
  local installed="$cache/tmp/$2-install"
  shift 2
  use_compiler
  tarball=$(source_archive "$name")
  say "$name: building ${folder##*/} (about a minute on 2 cores)"
  mkdir -p "$source"
  tar -xf "$tarball" -C "$source" --strip-components=1
  if [[ $name == caf ]]; then
    # In one unit with others this file's names clash.
    echo 'set_source_files_properties(src/binary_serializer.cpp PROPERTIES' \
      'SKIP_UNITY_BUILD_INCLUSION ON)' >>"$source/libcaf_core/CMakeLists.txt"
  fi
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  # Several files in one unit compile four times as fast.
  cmake -S "$source" -B "$source/build" -G Ninja "${launcher[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF "$@" \
    >"$source.log" 2>&1 || { cat "$source.log" >&2 && die "$name: no configure"; }
  ninja -C "$source/build" -j "$(jobs)" >"$source.log" 2>&1 ||
    { tail -n 40 "$source.log" >&2 && die "$name: the build failed"; }
  DESTDIR="$installed" cmake --install "$source/build" >/dev/null
  mv -T "$installed$folder" "$folder"
  rm -rf "$source"
}

caf() { # FOLDER FLAGS
  if [[ -n ${CAF_DIR:-} ]]; then say "CAF: $CAF_DIR" && return; fi
  local by
  by=$(compiler_version)
  if [[ -d $cache/$1 && $(cat "$cache/$1/compiler" 2>/dev/null || echo "$by") == "$by" ]]
  then
    say "CAF: cached ($1)" && return
  fi
  rm -rf "${cache:?}/$1"  # libraries of another compiler may not link
  # Packages contain CAF, and no path of the machine that made them.
  build_source caf "$1" -DCAF_ENABLE_IO_MODULE=OFF \
    -DCMAKE_CXX_FLAGS="$2 -ffile-prefix-map=$cache/tmp/$1-source=caf" \
    -DCAF_ENABLE_OPENSSL_MODULE=OFF -DCAF_ENABLE_TOOLS=OFF \
    -DCAF_ENABLE_EXAMPLES=OFF -DCAF_ENABLE_TESTING=OFF
  echo "$by" >"$cache/$1/compiler"
}

get_catch2() { build_source catch2 "catch2-$catch2_version" -DCMAKE_CXX_STANDARD=20; }

# The wheel contains a whole CMake; links to its programs are enough.
get_cmake() {
  local folder="$cache/cmake-$cmake_version" part="$cache/tmp/cmake"
  if [[ ! -d $folder ]]; then
    wheels_into "$part" "${cmake_wheels[@]}"
    chmod +x "$part"/cmake/data/bin/*
    mv -T "$part/cmake/data" "$folder"
  fi
  mkdir -p "$cache/tools/bin"
  ln -sf "$folder"/bin/{cmake,ctest} "$cache/tools/bin/"
}

get_boost() { get_headers libboost1.83-dev "$boost_sha256"; }
get_tomlplusplus() { get_headers libtomlplusplus-dev "$tomlplusplus_sha256"; }

# The headers of a package of Ubuntu 24.04, for 22.04.
get_headers() { # PACKAGE SHA256
  local part="$cache/tmp/$1"
  [[ $(system_id) == ubuntu ]] || explain_missing "${1/1.83/}"
  mkdir -p "$part" "$cache/headers/include"
  (cd "$part" && private_apt deb noble apt-get -qq download "$1")
  check_sum "$2" "$part"/*.deb
  dpkg-deb -x "$part"/*.deb "$part/unpacked"
  cp -a "$part/unpacked/usr/include/." "$cache/headers/include/"
}
