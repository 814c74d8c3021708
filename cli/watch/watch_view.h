// One way in which `gordian watch` shows a job.
#ifndef GORDIAN_CLI_WATCH_WATCH_VIEW_H_
#define GORDIAN_CLI_WATCH_WATCH_VIEW_H_

#include <memory>
#include <string>
#include <string_view>

#include "cli/watch/status_follower.h"

namespace gordian::cli {

class WatchView {
 public:
  virtual ~WatchView() = default;

  // Shows a status that is no error. False: it can no longer do so.
  virtual bool Show(const StatusNews& news) = 0;
  // Gives the terminal back as it was. The view shows no more.
  virtual void Leave() {}

  // Before the process stops (Ctrl-Z), and after it goes on.
  virtual void Stop() {}
  virtual bool Resume() { return true; }
  virtual bool Resize() { return true; }

  // Of a view that reads keys: whether it does now, and in how many milliseconds Press wants to be
  // called without any; -1: never.
  virtual bool reads_keys() const { return false; }
  virtual int patience_ms() const { return -1; }
  // What the terminal sent. False: as Show.
  virtual bool Press(std::string_view /*bytes*/) { return true; }
  // The user has ended it.
  virtual bool quit() const { return false; }
  // The user reads: the job's end does not end the view.
  virtual bool stays() const { return false; }
  // Says that there will be no news any more.
  virtual bool ShowEnd(const std::string& /*why*/) { return true; }
};

// A line for each change of the verdict, where the output is no terminal.
std::unique_ptr<WatchView> MakeLineView();
// Redraws as the status changes, on a terminal whose keys it cannot have.
std::unique_ptr<WatchView> MakeRedrawnView(std::string title);
// The verdict's card and lists to move in.
std::unique_ptr<WatchView> MakeScreenView();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_WATCH_VIEW_H_
