"""For jobs of PyTorch: `plan` follows what `gordian plan` plans, `measure` times what it needs."""
