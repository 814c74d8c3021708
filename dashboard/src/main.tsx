// Starts the page: as a report, if the document is in it, else as a live page.
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";

import { LiveApp, ReportApp } from "./app";
import { embeddedText, unpack } from "./data/embedded";
import { Live } from "./data/live";
import { keepToken, takeTokenFromAddress } from "./data/token";
import "./style.css";

function LiveRoot() {
  const [, redraw] = useState(0);
  const live = useMemo(() => {
    const made = new Live(() => redraw((n) => n + 1));
    made.start();
    return made;
  }, []);
  return (
    <LiveApp
      state={live.state}
      watch={(job) => live.watch(job)}
      onToken={(token) => {
        keepToken(token);
        live.retry();
      }}
    />
  );
}

async function start(root: HTMLElement): Promise<void> {
  const embedded = embeddedText(document);
  if (embedded === null) {
    takeTokenFromAddress();
    render(<LiveRoot />, root);
    return;
  }
  try {
    const page = await unpack(embedded);
    render(<ReportApp page={page} page_at={performance.now()} />, root);
  } catch (error) {
    const why = error instanceof Error ? error.message : "";
    render(
      <main>
        <h1>gordian</h1>
        <p class="notice" role="alert">
          This page cannot read the report in it. {why}
        </p>
      </main>,
      root,
    );
  }
}

const root = document.getElementById("app");
if (root !== null) void start(root);
