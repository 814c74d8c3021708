"""gordian's parts for jobs: what a training script imports."""
