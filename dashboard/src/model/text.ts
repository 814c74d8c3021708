// Makes texts: printable names, folded ranks, durations, sizes, commands.

// Control and format characters: those that end a line, move the cursor, or turn the direction.
const kControl = "\\u0000-\\u001f\\u007f-\\u009f";
const kFormat = "\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb";
const kUnprintable = new RegExp(`[${kControl}${kFormat}]`);
const kEachUnprintable = new RegExp(kUnprintable.source, "g");
const kLongest = 8192;

function escaped(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  return "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0");
}

// Shows what a hostile name is made of, instead of letting it break lines or turn the direction.
export function printable(text: string): string {
  const cut = text.length > kLongest ? text.slice(0, kLongest) + "…" : text;
  return kUnprintable.test(cut) ? cut.replace(kEachUnprintable, escaped) : cut;
}

// The same for a text of many lines: its line ends and tabs stay.
export function printableLines(text: string): string {
  return text.replace(kEachUnprintable, (c) => (c === "\n" || c === "\t" ? c : escaped(c)));
}

// "0-5,7"; of very many ranges only the first, and how many ranks that leaves out.
export function foldRanks(ranks: readonly number[], mostRanges = 12): string {
  const sorted = Array.from(new Set(ranks)).sort((a, b) => a - b);
  const parts: string[] = [];
  let shown = 0;
  for (let i = 0; i < sorted.length;) {
    let end = i + 1;
    while (end < sorted.length && sorted[end] === sorted[end - 1]! + 1) ++end;
    if (parts.length === mostRanges) {
      return `${parts.join(",")} and ${count(sorted.length - shown)} more`;
    }
    const first = sorted[i]!;
    if (end - i === 1) parts.push(`${first}`);
    else if (end - i === 2) parts.push(`${first},${first + 1}`);
    else parts.push(`${first}-${sorted[end - 1]}`);
    shown = end;
    i = end;
  }
  return parts.join(",");
}

// "rank 3", "ranks 0-5,7", "no rank".
export function ranksText(ranks: readonly number[], mostRanges = 12): string {
  if (ranks.length === 0) return "no rank";
  const known = ranks.filter((rank) => rank >= 0);
  if (known.length === 0) return "an unknown rank";
  return (known.length === 1 ? "rank " : "ranks ") + foldRanks(known, mostRanges);
}

export function rankText(rank: number): string {
  return rank < 0 ? "an unknown rank" : `rank ${rank}`;
}

// 16384 -> "16,384".
export function count(value: number): string {
  if (!Number.isFinite(value) || value < 0) return "unknown";
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

export function plural(value: number, one: string, many = one + "s"): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// "#3"; of a tagged transfer "#0 (tag 7)": as analyzer/model/verdict/number_text.h.
function numberText(number: number): string {
  const tag = Math.floor(number / 2 ** 32);
  if (tag === 0) return `#${number}`;
  return `#${number % 2 ** 32} ${tag < 2 ** 16 ? `(tag ${tag})` : "(tagged)"}`;
}

// "AllReduce #3 on dp".
export function operationText(operation: { op: string; seq: number; comm_name: string }): string {
  const seq = operation.seq >= 0 ? ` ${numberText(operation.seq)}` : "";
  const comm = operation.comm_name === "" ? "" : ` on ${operation.comm_name}`;
  return `${operation.op || "an operation"}${seq}${comm}`;
}

export function bytesText(bytes: number): string {
  if (bytes < 0) return "";
  if (bytes < 1024) return plural(bytes, "byte");
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes;
  let unit = -1;
  do {
    value /= 1024;
    ++unit;
  } while (value >= 1024 && unit + 1 < units.length);
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

// "0.06 s", "12 s", "3 min 05 s", "2 h 04 min", "3 d 4 h"; "" if not known.
export function durationText(seconds: number): string {
  if (!(seconds >= 0) || seconds > 1e12) return "";
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  const two = (value: number) => value.toString().padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

// A time on the timeline, at most 4 digits: "1.25 ms".
export function nanosText(ns: number): string {
  const size = Math.abs(ns);
  const round = (value: number) => Number(value.toPrecision(4)).toString().replace("-", "−");
  if (size < 1e3) return `${round(ns)} ns`;
  if (size < 1e6) return `${round(ns / 1e3)} µs`;
  if (size < 1e9) return `${round(ns / 1e6)} ms`;
  return `${round(ns / 1e9)} s`;
}

// Quotes a word for a POSIX shell, if it needs that.
export function shellWord(word: string): string {
  if (/^[A-Za-z0-9_./:@%+=,][A-Za-z0-9_./:@%+=,-]*$/.test(word)) return word;
  return "'" + word.replace(/'/g, "'\\''") + "'";
}

// Cuts a text to `most` characters, with a sign that it was cut.
export function cutTo(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, Math.max(0, most - 1)) + "…";
}
