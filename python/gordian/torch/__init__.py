"""For jobs of PyTorch: `plan` follows what `gordian plan` has planned, `measure` gives it the times to plan with."""
