// The verifier against programs that do not do what is wanted of them: small scripts stand in for
// `gordian run`.
#include "replayer/verify/verifier.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gordian::replayer {
namespace {

class VerifierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gordian-verifier-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    setenv("TMPDIR", folder, 1);
    tools_.limit_s = 30;
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  void GordianIs(const std::string& script) {
    tools_.gordian = folder_ + "/gordian";
    std::ofstream(tools_.gordian) << "#!/bin/sh\n" << script << "\n";
    chmod(tools_.gordian.c_str(), 0700);
  }
  Verified Run(int count) {
    StatusOr<Verified> verified = VerifyReplay("/bin/true", wanted_, count, false, tools_, nullptr);
    EXPECT_TRUE(verified.ok()) << verified.status().ToString();
    return verified.ok() ? *verified : Verified{};
  }
  size_t FilesLeft() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      count += entry.path().filename() != "gordian";
    return count;
  }

  std::string folder_;
  VerifyTools tools_;
  const Signature wanted_{"deadlock", {"started_collective"}};
};

TEST_F(VerifierTest, AProgramThatEndsIsNoHang) {
  GordianIs("echo all ranks have ended; exit 0");
  const Verified verified = Run(3);
  EXPECT_EQ(verified.runs.size(), 3u);
  EXPECT_EQ(verified.hung, 0);
  EXPECT_EQ(verified.same, 0);
  EXPECT_NE(verified.runs[0].output.find("all ranks have ended"), std::string::npos);
  EXPECT_NE(Describe(verified, wanted_).find("0 of 3 runs under the emulator hung"),
            std::string::npos);
  EXPECT_NE(Describe(verified, wanted_).find("exited with 0"), std::string::npos);
  EXPECT_EQ(FilesLeft(), 0u);
}

TEST_F(VerifierTest, AHangThatNobodyHasToldOfIsNotTheSame) {
  GordianIs("exit 42");
  const Verified verified = Run(2);
  EXPECT_EQ(verified.hung, 2);
  EXPECT_EQ(verified.same, 0);
}

TEST_F(VerifierTest, WhoTakesTooLongIsKilledWithAllThatItStarted) {
  tools_.limit_s = 0.5;
  GordianIs("sleep 1000 & echo $! > " + folder_ + "/child; sleep 1000");
  const Verified verified = Run(1);
  ASSERT_EQ(verified.runs.size(), 1u);
  EXPECT_EQ(verified.runs[0].exit_code, -1);
  EXPECT_EQ(verified.hung, 0);
  pid_t child = 0;
  std::ifstream(folder_ + "/child") >> child;
  ASSERT_GT(child, 0);
  // Gone, or a zombie that whoever adopted it has yet to reap; killed it was, but that takes a
  // moment.
  const auto gone = [child] {
    std::string state = "X", word;
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    if (stat) stat >> word >> word >> state;
    return state == "X" || state == "Z";
  };
  for (int tried = 0; tried < 2000 && !gone(); ++tried) usleep(10'000);
  EXPECT_TRUE(gone());
}

TEST_F(VerifierTest, WhatDoesNotCompileIsAnErrorInTheCompilersWords) {
  std::ofstream(folder_ + "/bad.cc") << "int main() { return nothing_of_the_kind; }\n";
  tools_.library_dir = folder_;
  const OwnedFolder folder = OwnedFolder::Open(folder_).value();
  const Status status = CompileReplay(folder, "bad.cc", "bad", tools_);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("nothing_of_the_kind"), std::string::npos) << status.message();
  tools_.compiler = folder_ + "/no-compiler";
  EXPECT_FALSE(CompileReplay(folder, "bad.cc", "bad", tools_).ok());
}

// The compiler writes into the folder that was opened, whatever its path leads to by then.
TEST_F(VerifierTest, ALinkInPlaceOfTheFolderLeadsNoCompilerAstray) {
  const std::string ours = folder_ + "/ours", victim = folder_ + "/victim";
  std::filesystem::create_directory(ours);
  std::filesystem::create_directory(victim);
  std::ofstream(ours + "/fine.cc") << "int main() {}\n";
  std::ofstream(victim + "/fine.cc") << "precious";
  std::ofstream(victim + "/fine") << "precious";
  const OwnedFolder folder = OwnedFolder::Open(ours).value();
  std::filesystem::rename(ours, folder_ + "/aside");
  std::filesystem::create_directory_symlink(victim, ours);
  // A compiler without NCCL and the CUDA runtime, which the emulator has.
  tools_.compiler = folder_ + "/compiler";
  std::ofstream(tools_.compiler) << "#!/bin/sh\nexec g++ fine.cc -o fine\n";
  chmod(tools_.compiler.c_str(), 0700);
  EXPECT_TRUE(CompileReplay(folder, "fine.cc", "fine", tools_).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/aside/fine"));
  std::string text;
  std::ifstream(victim + "/fine") >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(VerifierTest, WithoutGordianItIsAnError) {
  tools_.gordian = folder_ + "/none";
  EXPECT_FALSE(VerifyReplay("/bin/true", wanted_, 1, false, tools_, nullptr).ok());
}

}  // namespace
}  // namespace gordian::replayer
