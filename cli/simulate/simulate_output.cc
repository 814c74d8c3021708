#include "cli/simulate/simulate_output.h"

#include <unistd.h>

#include <cstdio>

#include "cli/output.h"
#include "simulator/text.h"

namespace gordian::cli {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarWidth = 30;

std::string Fixed(double number, int places) {
  char text[64];
  snprintf(text, sizeof(text), "%.*f", places, number);
  return text;
}

void AddDetector(const char* name, const simulator::DetectorReport& report, std::string* text) {
  if (!report.asked) {
    return;
  }
  const simulator::Estimate& estimate = report.estimate;
  *text += name;
  *text += RatioText(estimate.ratio, estimate.interval.low, estimate.interval.high);
  *text += "  " + estimate.method + ", " + WithCommas(static_cast<uint64_t>(estimate.hits)) +
           " deadlocks in " + WithCommas(static_cast<uint64_t>(estimate.n)) + "\n";
  if (!report.why.empty()) {
    *text += "            because " + report.why + "\n";
  }
  if (estimate.residual > 0) {
    *text += "            leaves out deadlocks of second order, about " +
             simulator::Digits(estimate.residual * 100, 2) + " % of it\n";
  }
}

}  // namespace

ProgressLine::ProgressLine(int fd) : fd_(fd), shows_(isatty(fd) == 1) {}

void ProgressLine::Show(int64_t done, int64_t all, double seconds) {
  if (!shows_ || all <= 0 || seconds - last_ < kRedrawSeconds) {
    return;
  }
  last_ = seconds;
  const double part = static_cast<double>(done) / static_cast<double>(all);
  const int filled = static_cast<int>(part * kBarWidth);
  std::string line = "\r[" + std::string(static_cast<size_t>(filled), '#') +
                     std::string(static_cast<size_t>(kBarWidth - filled), '.') + "] " +
                     Fixed(part * 100, 0) + " %, " + Fixed(seconds, 0) + " s";
  if (done > 0) {
    line += ", " + Fixed(seconds / part - seconds, 0) + " s left ";
  }
  WriteAll(fd_, line);
  drawn_ = true;
}

void ProgressLine::Clear() {
  if (drawn_) {
    WriteAll(fd_, "\r\033[K");
    drawn_ = false;
  }
}

std::string RatioText(double ratio, double low, double high) {
  using simulator::Digits;
  if (high < 1e-4) {
    return Digits(ratio, 4) + " [" + Digits(low, 4) + ", " + Digits(high, 4) + "]";
  }
  return Digits(ratio * 100, 4) + " % [" + Digits(low * 100, 4) + ", " + Digits(high * 100, 4) +
         "]";
}

std::string SimulationText(const simulator::Config& config, const simulator::SimulateReport& report,
                           double seconds) {
  using simulator::Digits;
  const bool single = config.model == simulator::Model::kSingle;
  std::string text =
      std::string(simulator::ModelName(config.model)) + ", " +
      WithCommas(static_cast<uint64_t>(config.GpuCount())) + " GPUs in " +
      WithCommas(static_cast<uint64_t>(config.GroupCount())) + " groups" +
      (report.components > 1 ? ", " + WithCommas(report.components) + " parts that never meet"
                             : "") +
      "; disorder " + Digits(config.disorder_prob) +
      (single ? "" : ", synchronisation " + Digits(config.sync_prob)) + "\n";
  AddDetector("deadlock    ", report.exact, &text);
  AddDetector("by default  ", report.by_default, &text);
  if (report.false_share) {
    text += "            " + Digits(*report.false_share * 100, 4) +
            " % of the deadlocks that the default detector reports are none\n";
  }
  if (report.first_order) {
    text += std::string("first order ") + (single ? "1-exp(-p*M1) = " : "p*q^2*M2 = ") +
            Digits(*report.first_order, 4) + ", " + (single ? "M1 = " : "M2 = ") +
            WithCommas(single ? report.m1.value_or(0) : report.m2.value_or(0)) + "\n";
  }
  if (!report.common_order) {
    text += "the lists have no common order: they can deadlock without any disorder\n";
  }
  text += std::string("engine ") + simulator::EngineName(report.engine) + ", seed " +
          std::to_string(report.seed) + ", " + Digits(seconds, 3) + " s";
  if (report.rounds > 0 && seconds > 0) {
    text += ", " + WithCommas(static_cast<uint64_t>(static_cast<double>(report.rounds) / seconds)) +
            " rounds/s";
  }
  text += "\n";
  if (report.rounds > report.distinct_rounds) {
    text += "fix_seed: every process ran the same " +
            WithCommas(static_cast<uint64_t>(report.distinct_rounds)) + " rounds\n";
  }
  if (!report.complete) {
    text += "INCOMPLETE: stopped by the time limit\n";
  }
  return text;
}

}  // namespace gordian::cli
