// c10d::TCPStore, or with JOB_STORE_CLASS=FileStore that, as PyTorch's C++ calls them, through a table
// of virtual functions, with files in the folder JOB_FOLDER for keys. The classes, their functions and
// their symbols are PyTorch's.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace c10d {

using Bytes = std::vector<uint8_t>;

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::vector<uint8_t>& value) = 0;
  virtual std::vector<uint8_t> compareSet(const std::string& key,
                                          const std::vector<uint8_t>& expected,
                                          const std::vector<uint8_t>& desired) = 0;
  virtual std::vector<uint8_t> get(const std::string& key) = 0;
  virtual int64_t add(const std::string& key, int64_t value) = 0;
};

namespace {

std::string PathOf(const std::string& key) { return std::string(getenv("JOB_FOLDER")) + "/" + key; }

void WriteKey(const std::string& key, const Bytes& value) {
  const std::string path = PathOf(key);
  std::ofstream(path + ".new", std::ios::binary)
      .write(reinterpret_cast<const char*>(value.data()), static_cast<long>(value.size()));
  rename((path + ".new").c_str(), path.c_str());
}

Bytes ReadKey(const std::string& key) {
  const std::string path = PathOf(key);
  while (access(path.c_str(), R_OK) != 0) usleep(1000);
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

// Jobs call neither compareSet nor add; they stand in the table.
#define STORE(name)                                                                               \
  class name : public Store {                                                                     \
   public:                                                                                        \
    void set(const std::string& key, const std::vector<uint8_t>& value) override;                 \
    std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected, \
                                    const std::vector<uint8_t>& desired) override;                \
    std::vector<uint8_t> get(const std::string& key) override;                                    \
    int64_t add(const std::string& key, int64_t value) override;                                  \
  };                                                                                              \
  void name::set(const std::string& key, const Bytes& value) { WriteKey(key, value); }            \
  Bytes name::get(const std::string& key) { return ReadKey(key); }                                \
  Bytes name::compareSet(const std::string&, const Bytes&, const Bytes&) { abort(); }             \
  int64_t name::add(const std::string&, int64_t) { abort(); }
STORE(TCPStore)
STORE(FileStore)

}  // namespace c10d

namespace {

c10d::Store* Chosen() {
  const char* const name = getenv("JOB_STORE_CLASS");
  if (name != nullptr && strcmp(name, "FileStore") == 0) return new c10d::FileStore;
  return new c10d::TCPStore;
}

// The compiler must not know what it points to, so that calls go through the table.
c10d::Store* volatile g_store = Chosen();

}  // namespace

extern "C" void store_set(const char* key, const void* value, size_t bytes) {
  const auto* const begin = static_cast<const uint8_t*>(value);
  g_store->set(key, c10d::Bytes(begin, begin + bytes));
}

extern "C" void store_get(const char* key, void* value, size_t bytes) {
  const c10d::Bytes found = g_store->get(key);
  memcpy(value, found.data(), found.size() < bytes ? found.size() : bytes);
}
