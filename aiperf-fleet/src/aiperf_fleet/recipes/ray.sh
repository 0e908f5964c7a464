#!/bin/sh
# Ray. Start the nodes; the resource `machine` lets each take one task at a time, and `class_NAME` gives it a class.
# No dashboard: its processes would take part of the machine that is measured.
#
#   head:   ray start --head --port=6379 --include-dashboard=false --resources='{"machine": 1, "class_h200": 1}'
#   others: ray start --address=HEAD:6379 --resources='{"machine": 1, "class_h200": 1}'
#
# All nodes need the same Python environment, at the same path:
#
#   pip install './aiperf-core' './aiperf-fleet[ray]'      # and the packages of the targets
#
# Who reaches the port of the head can run programs on the nodes: keep it in a private network.
set -eu

aiperf fleet init > suite.toml    # then change it
aiperf fleet run suite.toml --on ray --engine address=HEAD:6379 --out fleet
