#include "common/log.h"

#include <errno.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace gordian {
namespace {

// spdlog's own sinks open their file by its path. A write that fails (a full disk) is lost.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(std::FILE* file) : file_(file) {}
  ~FileSink() override { std::fclose(file_); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::fwrite(text.data(), 1, text.size(), file_);
  }
  void flush_() override { std::fflush(file_); }

 private:
  std::FILE* const file_;
};

}  // namespace

void SilenceLog() {
  auto logger =
      std::make_shared<spdlog::logger>("gordian", std::make_shared<spdlog::sinks::null_sink_mt>());
  logger->set_level(spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

Status OpenLog(int fd, std::string_view level_name) {
  if (fd < 0) return Status::FromErrno(errno, "cannot write the log");
  const spdlog::level::level_enum level = spdlog::level::from_str(std::string(level_name));
  const bool known = level != spdlog::level::off || level_name == "off";
  std::FILE* const file = known ? fdopen(fd, "a") : nullptr;
  if (file == nullptr) {
    const int error = errno;
    close(fd);
    return known ? Status::FromErrno(error, "cannot write the log")
                 : Status::InvalidArgument("no such log level: " + std::string(level_name));
  }
  auto logger = std::make_shared<spdlog::logger>("gordian", std::make_shared<FileSink>(file));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %P %t %l %v");
  logger->set_level(level);
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
  spdlog::flush_every(std::chrono::seconds(1));
  return Status::Ok();
}

void CloseLog() {
  if (spdlog::default_logger_raw() != nullptr) {
    spdlog::default_logger()->flush();
  }
  SilenceLog();
}

}  // namespace gordian
