// Reads server-sent events from pieces of a text stream.

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

export class EventReader {
  private buffer = "";
  private id = "";
  private event = "";
  private data: string[] = [];

  // Takes the next piece; returns the events that it completes.
  push(piece: string): ServerEvent[] {
    this.buffer += piece;
    const events: ServerEvent[] = [];
    let start = 0;
    for (;;) {
      const match = /\r\n|\n|\r/g;
      match.lastIndex = start;
      const end = match.exec(this.buffer);
      // A "\r" at the very end may be the first half of "\r\n".
      if (end === null || (end[0] === "\r" && end.index === this.buffer.length - 1)) break;
      this.line(this.buffer.slice(start, end.index), events);
      start = end.index + end[0].length;
    }
    this.buffer = this.buffer.slice(start);
    return events;
  }

  private line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.data.length > 0) {
        const event = this.event === "" ? "message" : this.event;
        events.push({ id: this.id, event, data: this.data.join("\n") });
      }
      this.event = "";
      this.data = [];
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "id") this.id = value;
    else if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
  }
}
