#!/bin/sh
# Slurm runs this before each task (slurm.conf: TaskProlog) and puts what it prints as `export` into
# the task's environment. For a site with one gordian server for all jobs: users then write
# `srun gordian run -- ...` alone. Set the address of your server in ANALYZER.
ANALYZER=${GORDIAN_SITE_ANALYZER:-}
[ -n "$ANALYZER" ] && [ -z "$GORDIAN_ANALYZER" ] && echo "export GORDIAN_ANALYZER=$ANALYZER"
exit 0
