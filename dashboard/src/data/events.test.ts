import { expect, test } from "vitest";

import { EventReader } from "./events";

test("reads events from pieces cut anywhere", () => {
  const text = ':\n\nid: 4\nevent: job\ndata: {"job":\ndata: "a"}\r\n\r\nid: 5\ndata: x\n\n';
  for (let size = 1; size < text.length; ++size) {
    const reader = new EventReader();
    const events = [];
    for (let at = 0; at < text.length; at += size) {
      events.push(...reader.push(text.slice(at, at + size)));
    }
    expect(events).toEqual([
      { id: "4", event: "job", data: '{"job":\n"a"}' },
      { id: "5", event: "message", data: "x" },
    ]);
  }
});
