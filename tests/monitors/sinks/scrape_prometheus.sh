#!/usr/bin/env bash
# tests/monitors/sinks/scrape_prometheus.sh [PROGRAM]
#
# Lets the real Prometheus read the sink; its Catch2 case runs it where it can.
# Needs `prometheus` and `promtool` in the PATH, and the tests built: PROGRAM is
# build/release/bin/tests/sinks by default.
set -euo pipefail

program=${1:-build/release/bin/tests/sinks}
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
port=$(python3 -c 'import socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    print(free.getsockname()[1])')

until_found() { # COMMAND...: within 20 s
  for _ in {1..100}; do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  echo "timed out: $*" >&2
  return 1
}

query() { # EXPRESSION
  python3 - "$port" "$1" <<'END'
import json, sys, urllib.parse, urllib.request
port, expression = sys.argv[1:]
answer = json.load(urllib.request.urlopen(
    f"http://127.0.0.1:{port}/api/v1/query?"
    + urllib.parse.urlencode({"query": expression}), timeout=5))
result = answer["data"]["result"]
for row in result:
    print(row["metric"], row["value"][1])
sys.exit(not result)
END
}

mkfifo "$folder/input"
"$program" "serve" <"$folder/input" >"$folder/output" &
exec 3>"$folder/input"
until_found grep -q '^127' "$folder/output"
address=$(grep '^127' "$folder/output")
echo "served at $address"

python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="")' \
  "http://$address/metrics" >"$folder/metrics"
echo "promtool check metrics:"
promtool check metrics <"$folder/metrics" && echo "  no complaint"

cat >"$folder/prometheus.yml" <<END
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: troupe
    static_configs: [{targets: ["$address"]}]
END
prometheus --config.file="$folder/prometheus.yml" \
  --storage.tsdb.path="$folder/data" \
  --web.listen-address="127.0.0.1:$port" >"$folder/log" 2>&1 &

until_found query 'troupe_step'
query 'up{job="troupe"}'
query 'troupe_loss'
query 'troupe_spike_score'
query 'troupe_alerts_total'
query 'troupe_throughput_busy_seconds'
query 'troupe_gap_max{name="w"}'
query 'troupe_gap_max{name="layer499"}'
query 'count(troupe_gap_max)'
exec 3>&-
