# SPDX-License-Identifier: Apache-2.0
"""One rank of two on GPU 0 through torch.distributed: two_ranks_torch.py RANK RENDEZVOUS_FILE. The environment decides
which plugin NCCL loads; run.sh sets it."""
import datetime
import sys

import torch
import torch.distributed as dist


def main():
    rank = int(sys.argv[1])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method="file://" + sys.argv[2], rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=120))
    print(f"rank {rank}: torch {torch.__version__}, NCCL {torch.cuda.nccl.version()}")
    wrong = 0
    for count in (1, 1000, 1 << 20):
        values = torch.arange(count, device="cuda") % 1000
        mine = values + rank
        dist.all_reduce(mine)
        wrong += int((mine != 2 * values + 1).sum())
        theirs = torch.empty_like(values)
        operations = [dist.P2POp(dist.isend, values + rank, 1 - rank), dist.P2POp(dist.irecv, theirs, 1 - rank)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        torch.cuda.synchronize()
        wrong += int((theirs != values + 1 - rank).sum())
    dist.destroy_process_group()
    print(f"rank {rank}: {wrong} wrong elements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
