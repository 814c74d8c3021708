#include "cli/job/job_identity.h"

#include <gtest/gtest.h>

#include <map>

namespace gordian::cli {
namespace {

Environment Variables(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) {
      return std::nullopt;
    }
    return found->second;
  };
}

JobIdentity Identify(std::map<std::string, std::string> variables, JobIdentityFlags flags = {}) {
  StatusOr<JobIdentity> identity =
      IdentifyJob(flags, Variables(std::move(variables)), "host7", 42, 5'000'000);
  EXPECT_TRUE(identity.ok()) << identity.status().message();
  return identity.ok() ? *identity : JobIdentity();
}

TEST(JobIdentityTest, FlagsThenOurVariablesThenTheLaunchers) {
  std::map<std::string, std::string> all = {
      {"GORDIAN_JOB", "ours"}, {"GORDIAN_NODE", "n9"},         {"GORDIAN_NODES", "4"},
      {"SLURM_JOB_ID", "77"},  {"SLURM_STEP_ID", "0"},         {"SLURM_NNODES", "3"},
      {"SLURM_NODEID", "2"},   {"TORCHELASTIC_RUN_ID", "run5"}};
  EXPECT_EQ(Identify(all, {.job = "flag", .node = "x", .nodes = "5"}).job, "flag");
  EXPECT_EQ(Identify(all, {.job = "flag", .node = "x", .nodes = "5"}).nodes_expected, 5u);
  EXPECT_EQ(Identify(all).job, "ours");
  EXPECT_EQ(Identify(all).node, "n9");
  EXPECT_EQ(Identify(all).nodes_expected, 4u);
  for (const char* name : {"GORDIAN_JOB", "GORDIAN_NODE", "GORDIAN_NODES"}) {
    all.erase(name);
  }
  const JobIdentity slurm = Identify(all);
  EXPECT_EQ(slurm.job, "slurm-77.0");
  EXPECT_EQ(slurm.node, "host7");
  EXPECT_EQ(slurm.nodes_expected, 3u);
  EXPECT_EQ(slurm.node_rank, 2);
  all["SLURM_RESTART_COUNT"] = "1";
  EXPECT_EQ(Identify(all).job, "slurm-77.0-1") << "a requeued job is another run";
  EXPECT_EQ(Identify({{"TORCHELASTIC_RUN_ID", "run5"}}).job, "torch-run5");
}

TEST(JobIdentityTest, WithoutANameItIsUnique) {
  // "none" is what torchrun says of every job that was given no name.
  const JobIdentity one = Identify({{"TORCHELASTIC_RUN_ID", "none"}, {"GORDIAN_JOB", ""}});
  EXPECT_EQ(one.job, "host7-42-5");
  EXPECT_EQ(one.nodes_expected, 0u);
  EXPECT_EQ(one.node_rank, -1);
}

TEST(JobIdentityTest, OneOfSeveralTasksIsANodeOfItsOwn) {
  const JobIdentity mpi = Identify({{"OMPI_COMM_WORLD_RANK", "2"},
                                    {"OMPI_COMM_WORLD_SIZE", "8"},
                                    {"PMIX_NAMESPACE", "4711"},
                                    {"SLURM_JOB_ID", "7"},
                                    {"SLURM_NNODES", "2"},
                                    {"SLURM_NODEID", "1"}});
  EXPECT_EQ(mpi.job, "mpi-4711");
  EXPECT_EQ(mpi.node, "host7:2");
  EXPECT_EQ(mpi.nodes_expected, 8u);
  EXPECT_EQ(mpi.node_rank, 2);
  std::map<std::string, std::string> srun = {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "3"},
                                             {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"},
                                             {"SLURM_NNODES", "2"}, {"SLURM_NODEID", "1"}};
  EXPECT_EQ(Identify(srun).node, "host7:3");
  EXPECT_EQ(Identify(srun).nodes_expected, 4u);
  EXPECT_EQ(Identify(srun, {.nodes = "2"}).nodes_expected, 2u);
  srun["SLURM_NTASKS"] = "2";  // one a node
  srun["SLURM_PROCID"] = "1";
  EXPECT_EQ(Identify(srun).node, "host7");
  EXPECT_EQ(Identify(srun).nodes_expected, 2u);
  EXPECT_EQ(Identify(srun).node_rank, 1);
  // The script of an allocation is no task, though Slurm numbers it.
  const JobIdentity batch =
      Identify({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
  EXPECT_EQ(batch.nodes_expected, 0u);
  EXPECT_EQ(batch.node, "host7");
  const JobIdentity mpich = Identify({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"GORDIAN_JOB", "x"}});
  EXPECT_EQ(mpich.node, "host7:1");
  EXPECT_EQ(mpich.nodes_expected, 2u);
  const JobIdentity worker = Identify({{"TORCHELASTIC_RUN_ID", "run5"},
                                       {"RANK", "5"},
                                       {"WORLD_SIZE", "8"},
                                       {"GROUP_RANK", "1"},
                                       {"PMI_RANK", "0"},
                                       {"PMI_SIZE", "1"}});
  EXPECT_EQ(worker.node_rank, 5);
  EXPECT_EQ(worker.nodes_expected, 8u);
  EXPECT_TRUE(worker.one_of_tasks);
}

TEST(JobIdentityTest, RanksOfDeepspeedAreTasksAndKubeflowsPodsAreNot) {
  const JobIdentity rank =
      Identify({{"RANK", "9"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "16"}, {"CROSS_RANK", "1"}});
  EXPECT_EQ(rank.node, "host7:9");
  EXPECT_EQ(rank.nodes_expected, 16u);
  EXPECT_EQ(rank.node_rank, 9);
  EXPECT_TRUE(rank.one_of_tasks);
  EXPECT_FALSE(rank.named);
  // A pod that starts torchrun: what RANK numbers may be nodes or not.
  const JobIdentity pod = Identify({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(pod.node, "host7");
  EXPECT_EQ(pod.nodes_expected, 0u);
  EXPECT_FALSE(pod.one_of_tasks);
}

TEST(JobIdentityTest, ATaskOfSrunHasTheNameOfSlurmsNode) {
  std::map<std::string, std::string> task = {
      {"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "0"},      {"SLURM_NNODES", "2"},
      {"SLURM_NODEID", "1"},         {"SLURM_PROCID", "1"},       {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURMD_NODENAME", "gpu-7"}};
  EXPECT_EQ(Identify(task).node, "gpu-7");
  EXPECT_EQ(Identify(task, {.node = "mine"}).node, "mine");
  task["SLURM_STEP_NUM_TASKS"] = "4";
  EXPECT_EQ(Identify(task).node, "gpu-7:1");
  // mpiexec of MPICH in a batch script hands its own node's name on to all ranks.
  task["PMI_RANK"] = "3";
  task["PMI_SIZE"] = "4";
  EXPECT_EQ(Identify(task).node, "host7:3");
  // The batch script itself is no task of srun.
  EXPECT_EQ(Identify({{"SLURM_JOB_ID", "7"}, {"SLURMD_NODENAME", "gpu-7"}}).node, "host7");
}

TEST(JobIdentityTest, NonsenseIsNamed) {
  const Environment none = Variables({});
  for (const JobIdentityFlags& flags : {JobIdentityFlags{.job = "a b"},
                                        {.job = ""},
                                        {.node = "x\n"},
                                        {.nodes = "0"},
                                        {.nodes = "two"}}) {
    const auto identity = IdentifyJob(flags, none, "h", 1, 1);
    ASSERT_FALSE(identity.ok());
    EXPECT_EQ(identity.status().message().substr(0, 2), "--");
  }
  const auto bad = IdentifyJob({}, Variables({{"GORDIAN_NODES", "x"}}), "h", 1, 1);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().message().find("GORDIAN_NODES"), std::string::npos);
  // Of a launcher: left aside.
  EXPECT_EQ(Identify({{"SLURM_NNODES", "x"}}).nodes_expected, 0u);
}

TEST(JobIdentityTest, Addresses) {
  for (const char* good : {"head:7411", "10.0.0.1:1", "[::1]:65535"}) {
    EXPECT_TRUE(CheckAddress("--analyzer", good, false).ok()) << good;
  }
  for (const char* bad : {"", "head", ":7411", "head:", "head:x", "head:65536", "head:0",
                          "::1:7411", "unix:/tmp/x", "http://head:7411"}) {
    const Status status = CheckAddress("--analyzer", bad, false);
    EXPECT_FALSE(status.ok()) << bad;
    EXPECT_NE(status.message().find("--analyzer"), std::string::npos);
  }
  EXPECT_TRUE(CheckAddress("--listen", "0.0.0.0:0", true).ok());
}

TEST(JobIdentityTest, OnlyThisMachineIsTrustedUnasked) {
  for (const char* here : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(here)) << here;
  }
  for (const char* there : {"10.0.0.1:1", "head:1", "0.0.0.0:1", "127.0.0.1.evil.example:1",
                            "localhost.evil.example:1", "[::2]:1", "[::]:1"}) {
    EXPECT_FALSE(IsLoopback(there)) << there;
    RunConfig config;
    config.analyzer = there;
    EXPECT_FALSE(TrustsAnalyzer(config)) << there;
    config.access.tls_ca = "ca.pem";
    EXPECT_TRUE(TrustsAnalyzer(config)) << there;
    config.access.tls_ca.clear();
    config.trust_analyzer = true;
    EXPECT_TRUE(TrustsAnalyzer(config)) << there;
  }
  EXPECT_TRUE(TrustsAnalyzer({}));
}

}  // namespace
}  // namespace gordian::cli
