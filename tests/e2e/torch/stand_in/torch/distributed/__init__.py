from torch.distributed.distributed_c10d import *
from torch.distributed import device_mesh, distributed_c10d
