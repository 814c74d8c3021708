from torch.distributed import distributed_c10d


class DeviceMesh:
    """Of one dimension. As PyTorch before 2.4, it does not describe its group."""

    def __init__(self, device_type, mesh, *, mesh_dim_names=None):
        self.mesh_dim_names = mesh_dim_names
        self.group = distributed_c10d.new_group("mesh")

    def get_group(self, mesh_dim=None):
        return self.group
