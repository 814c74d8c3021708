"""gordian's front end for PyTorch: tells the shim of the calls of torch.distributed."""
