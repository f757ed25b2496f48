#!/usr/bin/env bash
# examples/multi_node/mpirun.sh HOST,HOST... TEXT SECRET [TRAIN-FLAG...]
#
# One process per host, by Open MPI; only its launcher is used. SECRET is a file
# with the job's secret, the same on all hosts.
set -euo pipefail

hosts=${1:?see the comment} text=${2:?} secret=${3:?}
shift 3
commas=${hosts//[^,]/}
count=$((${#commas} + 1))
mpirun -n "$count" --host "$hosts" --map-by node \
  troupe train --text "$text" --ranks "$count" \
  --rendezvous "${hosts%%,*}:29600" --job-token-file "$secret" "$@"
