# Shared by the scripts beside it: source it first.
set -euo pipefail
shopt -s inherit_errexit

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${TROUPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/troupe}"
started=$SECONDS
PATH="$cache/tools/bin:$PATH"  # what set-up got for an older system

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Prints a script's leading comment as its --help.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# timed NAME COMMAND...: runs the command and reports how long it took.
timed() {
  local name=$1 begin=$SECONDS
  shift
  "$@"
  say "$name: $((SECONDS - begin)) s"
}

total_time() { say "done in $((SECONDS - started)) s"; }

# The first compiler that is new enough: $CXX if it is set, else the system's c++
# or one of those installed beside it.
compiler() {
  local name names=(c++ g++-{12..15} clang++-{16..19})
  if [[ -n ${CXX:-} ]]; then names=("$CXX"); fi
  for name in "${names[@]}"; do
    "$name" -E -x c++ - >/dev/null 2>&1 <<'END' && echo "$name" && return
#if defined(__clang__) ? __clang_major__ < 16 : __GNUC__ < 12
#error too old
#endif
END
  done
  return 1
}

# Its kind and major version, such as gcc 12; nothing without a compiler.
compiler_version() {
  local name
  name=$(compiler) || return 0
  "$name" -E -P -x c++ - 2>/dev/null <<'END' | tr -d '\n'
#ifdef __clang__
clang __clang_major__
#else
gcc __GNUC__
#endif
END
}

use_compiler() {
  local found
  found=$(compiler) || die "no compiler is new enough: install g++ 12 or later" \
    "or clang 16 or later, or export CXX"
  export CXX=$found
}

jobs() { echo "${TROUPE_JOBS:-$(nproc)}"; }

setup_for() { # PRESET
  if [[ $1 == tsan ]]; then
    "$root/scripts/setup" --tsan
  else
    "$root/scripts/setup"
  fi
}

configure_and_build() { # PRESET [TARGET...]
  local preset=$1 folder="$root/build/$1"
  shift
  cd "$root"
  if [[ ! -f $folder/build.ninja ]]; then
    use_compiler
    timed configure cmake --preset "$preset" -Wno-dev --log-level=WARNING
  fi
  timed "build $preset" nice cmake --build "$folder" -j "$(jobs)" \
    ${1:+--target "$@"}
}
