#!/usr/bin/env bash
# examples/multi_node/torchrun.sh FIRST-HOST NODES NODE TEXT SECRET [FLAG...]
#
# Run this on each of NODES machines, with its number NODE from 0 up; machine 0
# is FIRST-HOST. SECRET is a file with the job's secret, the same on all.
set -euo pipefail

first=${1:?see the comment} nodes=${2:?} node=${3:?} text=${4:?} secret=${5:?}
shift 5
# torchrun uses its master port for its own store: troupe takes another.
torchrun --nnodes "$nodes" --node-rank "$node" --nproc-per-node 1 \
  --master-addr "$first" --master-port 29500 --no-python \
  troupe train --text "$text" --ranks "$nodes" \
  --rendezvous "$first:29600" --job-token-file "$secret" "$@"
