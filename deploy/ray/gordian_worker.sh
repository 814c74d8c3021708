#!/bin/bash
# Ray starts this in place of Python for each worker (runtime_env: py_executable). Each worker then
# has its own gordian, and is a node to the server, as a rank under mpirun is.
#
# GORDIAN_ANALYZER and GORDIAN_JOB come from the runtime_env; GORDIAN_PYTHON may name a Python.
session=${GORDIAN_SESSIONS:-/tmp}/gordian-ray-$GORDIAN_JOB-$$
exec gordian run --quiet --node "$(hostname)-$$" --session "$session" -- \
  "${GORDIAN_PYTHON:-python3}" "$@"
