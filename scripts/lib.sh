# Shared by the scripts beside it: source it first.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${TROUPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/troupe}"
started=$SECONDS

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Prints a script's leading comment: that is its --help.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# timed NAME COMMAND...: runs the command and says how long it took.
timed() {
  local name=$1 begin=$SECONDS
  shift
  "$@"
  say "$name: $((SECONDS - begin)) s"
}

total_time() { say "done in $((SECONDS - started)) s"; }

jobs() { echo "${TROUPE_JOBS:-$(nproc)}"; }
