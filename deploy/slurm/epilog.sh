#!/bin/bash
# Slurm runs this as root on each node after a job (slurm.conf: Epilog). It is needed only where
# jobs are killed together with their `gordian run`, as those that run on after Slurm's SIGTERM at
# their time limit: gordian itself leaves nothing.
#
# gordian keeps the rings of the user's killed jobs in their sessions, then removes them from
# /dev/shm; it touches no ring of a job that runs. The user's next `gordian run` on this node would
# do the same. Another user's files this never touches: it runs as the job's user.
#
# No prolog is needed. An epilog that fails would drain the node, so this one always ends with 0.

# Slurm starts it without slurmd's variables and without a PATH; bash takes the usual folders. Put
# gordian's in front if it is in none of them.
export PATH
textfiles=${GORDIAN_TEXTFILES:-/var/lib/prometheus/node-exporter}

for folder in /dev/shm/gordian-"$SLURM_JOB_UID"-*; do
  [ -d "$folder" ] || continue
  # shellcheck disable=SC2016  # the scratch folder is the user's
  timeout 60 setpriv --reuid="$SLURM_JOB_UID" --regid="$(id -g "$SLURM_JOB_UID")" --init-groups \
    --no-new-privs sh -c '
      scratch=$(mktemp -d) && cd "$scratch" && gordian run --quiet --session sweep -- true
      rm -rf "$scratch"' || true
  break
done
# Metrics that `gordian run --metrics-file` left for node-exporter, if jobs name them by their id.
rm -f "$textfiles/gordian-$SLURM_JOB_ID.prom"
exit 0
