#include "common/log.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "common/owned_folder.h"

namespace gordian {

void SilenceLog() {
  auto logger =
      std::make_shared<spdlog::logger>("gordian", std::make_shared<spdlog::sinks::null_sink_mt>());
  logger->set_level(spdlog::level::off);
  spdlog::set_default_logger(std::move(logger));
}

Status OpenLog(const std::string& path, std::string_view level_name) {
  const spdlog::level::level_enum level = spdlog::level::from_str(std::string(level_name));
  if (level == spdlog::level::off && level_name != "off") {
    return Status::InvalidArgument("no such log level: " + std::string(level_name));
  }
  try {
    spdlog::file_event_handlers events;
    events.after_open = [](const std::string&, std::FILE* file) {
      fcntl(fileno(file), F_SETFD, FD_CLOEXEC);
      fchmod(fileno(file), kFileMode);
    };
    auto sink =
        std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, /*truncate=*/false, events);
    auto logger = std::make_shared<spdlog::logger>("gordian", std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %P %t %l %v");
    logger->set_level(level);
    logger->flush_on(spdlog::level::warn);
    // By default spdlog reports a failed write (a full disk) on stderr.
    logger->set_error_handler([](const std::string&) {});
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    SilenceLog();
    return Status::Unavailable("cannot write the log " + path + ": " + error.what());
  }
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
