// Memory under a name that something else bears.
#include "runtime/cpu/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gordian::runtime {
namespace {

class SharedMemoryTest : public ::testing::Test {
 protected:
  SharedMemoryTest() { std::ofstream(victim_) << "precious"; }
  ~SharedMemoryTest() override {
    unlink(path_.c_str());
    unlink(victim_.c_str());
  }
  void ExpectVictimIsWhole() const {
    std::ifstream file(victim_);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious");
  }

  const std::string name_ = "gordian-shared-memory-test-" + std::to_string(getpid());
  const std::string path_ = "/dev/shm/" + name_;
  const std::string victim_ = path_ + "-victim";  // on the same file system, for a second name
};

TEST_F(SharedMemoryTest, IsMadeAndFoundAgain) {
  SharedMemory::LeaveWord(name_, 8, 7);
  const auto memory = SharedMemory::Open(name_, 4096);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(static_cast<const uint64_t*>(memory->base())[1], 7u);
  memory->Unlink();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SharedMemoryTest, AFileOfAnotherNameIsLeftAlone) {
  for (const bool symbolic : {true, false}) {
    if (symbolic) {
      ASSERT_EQ(symlink(victim_.c_str(), path_.c_str()), 0);
    } else {
      ASSERT_EQ(link(victim_.c_str(), path_.c_str()), 0);
    }
    EXPECT_EQ(SharedMemory::Open(name_, 4096), nullptr);
    SharedMemory::LeaveWord(name_, 8, 7);
    ExpectVictimIsWhole();
    unlink(path_.c_str());
  }
}

}  // namespace
}  // namespace gordian::runtime
