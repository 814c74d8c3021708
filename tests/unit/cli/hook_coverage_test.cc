#include "cli/doctor/hook_coverage.h"

#include <gtest/gtest.h>

namespace gordian::cli {
namespace {

using Names = std::vector<std::string>;

TEST(HookCoverage, NamesWhatIsNeitherARowNorLeftOut) {
  EXPECT_EQ(BeyondTable("nccl", {"ncclTomorrow", "ncclAllReduce", "pncclTomorrow", "helper",
                                 "ncclTeamWorld", "ncclA"}),
            (Names{"ncclA", "ncclTomorrow"}));
  EXPECT_EQ(BeyondTable("cudart", {"cudaMalloc", "cudaFree", "__cudaLaunchKernel_v9", "cuInit"}),
            (Names{"__cudaLaunchKernel_v9"}));
  EXPECT_EQ(BeyondTable("cuda", {"cuInit", "cuGraphLaunch", "cuStreamWaitTomorrow"}),
            (Names{"cuStreamWaitTomorrow"}));
}

TEST(HookCoverage, ARowOfOneLibraryIsNoneOfAnother) {
  EXPECT_EQ(BeyondTable("cuda", {"cudaStreamSynchronize"}), (Names{"cudaStreamSynchronize"}));
}

}  // namespace
}  // namespace gordian::cli
