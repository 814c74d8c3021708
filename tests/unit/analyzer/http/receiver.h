// A web server for tests that takes what is posted and answers as it is told.
#ifndef GORDIAN_TESTS_UNIT_ANALYZER_HTTP_RECEIVER_H_
#define GORDIAN_TESTS_UNIT_ANALYZER_HTTP_RECEIVER_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gordian::http {

struct Received {
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// Thread-safe; one request after the other.
class Receiver {
 public:
  // `answer` gets the number of the request, from 0, and returns the whole answer; "": the connection
  // is closed without one; kSilence: there is none until the receiver ends, or the other side closes.
  static constexpr char kSilence[] = "silence";
  explicit Receiver(std::function<std::string(size_t)> answer = nullptr);
  ~Receiver();

  std::string Url(const std::string& rest = "/hook") const {
    return "http://127.0.0.1:" + std::to_string(port_) + rest;
  }
  std::vector<Received> received() const;

  // `more`: further headers, each with its end of line.
  static std::string Code(int code, const std::string& more = "", const std::string& body = "ok");

 private:
  void Run();

  const std::function<std::string(size_t)> answer_;
  int listener_ = -1, port_ = 0;
  int stop_[2] = {-1, -1};
  mutable std::mutex mutex_;
  std::vector<Received> received_;
  std::thread thread_;
};

}  // namespace gordian::http

#endif  // GORDIAN_TESTS_UNIT_ANALYZER_HTTP_RECEIVER_H_
