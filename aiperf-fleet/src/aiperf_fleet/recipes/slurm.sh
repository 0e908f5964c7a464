#!/bin/sh
# Slurm. Run this on a machine from which jobs are submitted, in a folder that the nodes share.
# The nodes need the same Python environment, at the same path:
#
#   pip install './aiperf-core' './aiperf-fleet[slurm]'    # and the packages of the targets
#
# Features of the nodes are the classes of a suite (sinfo -o '%N %f'). Each task is one exclusive job on one node.
set -eu

aiperf fleet init > suite.toml    # then change it
aiperf fleet run suite.toml --on slurm --out "$PWD/fleet" \
  --engine partition=gpu --engine gres=gpu:8

# Jobs outlive this command. After Ctrl-C or a lost connection:
#   aiperf fleet resume fleet
#   aiperf fleet cancel fleet
