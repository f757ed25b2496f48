#!/usr/bin/env bash
# examples/multi_node/healing_mpirun.sh HOST,HOST... TEXT SECRET [TRAIN-FLAG...]
#
# A job that heals (docs/healing-machines.md), with one process per host, by Open MPI 4;
# only its launcher is used. A process that is lost is not started again: the
# others host its ranks. SECRET is a file with the job's secret, the same on all
# hosts. This machine, which runs the authority, must have an address that they
# reach: TROUPE_HOST, or its name.
set -euo pipefail

hosts=${1:?see the comment} text=${2:?} secret=${3:?}
shift 3
commas=${hosts//[^,]/}
count=$((${#commas} + 1))
authority=${TROUPE_HOST:-$(hostname)}:29600
troupe authority --listen "$authority" --job-token-file "$secret" &
decides=$!
mpirun -n "$count" --host "$hosts" --map-by node --enable-recovery \
  troupe train --text "$text" --ranks "$count" --authority "$authority" \
  --job-token-file "$secret" "$@" || true
# The authority ends with the job, unless no process is left.
sleep 1
kill "$decides" 2>/dev/null || true
wait "$decides"
