// The last operations of each stream on a time axis. What is not done is hatched and open to the
// right.
import { useMemo, useRef, useState } from "preact/hooks";

import { bytesText, cutTo, nanosText, operationText, plural, ranksText } from "../model/text";
import {
  absentees,
  absentText,
  isOpen,
  lanesOf,
  orderedStreams,
  panned,
  ticks,
  wholeSpan,
  zoomed,
  type TimeSpan,
} from "../model/timeline";
import type { History, StreamHistory, StreamOperation, Verdict } from "../model/types";
import { instanceOp } from "../model/words";
import { useParam, usePage } from "../ui/context";
import { Filter, NoHistory, Notice } from "../ui/parts";
import { ScrollCanvas, type Visible } from "../ui/scroll_canvas";
import { usePalette, useWidth } from "../ui/size";

const kLane = 20;
const kBar = 18;
const kMostLanes = 3;
const kAxis = 26;
const kColours = 7;
const kMostNamed = 7; // communicators that the legend names

interface Chosen {
  row: number;
  operation: number;
}

function lowerBound(operations: readonly StreamOperation[], time: number): number {
  let from = 0;
  let to = operations.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    const operation = operations[middle]!;
    const end = isOpen(operation) ? Infinity : operation.done_ns;
    if (end < time) from = middle + 1;
    else to = middle;
  }
  return from;
}

function hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = 8;
  tile.height = 8;
  const pen = tile.getContext("2d");
  if (pen === null) return colour;
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  for (const shift of [-8, 0, 8]) {
    pen.beginPath();
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat") ?? colour;
}

function operationLine(
  stream: StreamHistory,
  operation: StreamOperation,
  zero: number,
  verdict: Verdict | null,
): string {
  const absent = isOpen(operation) ? absentText(absentees(verdict, operation)) : "";
  const parts = [
    `rank ${stream.rank}, stream ${stream.stream}: ${operationText(operation)}`,
    bytesText(operation.bytes),
    `called at ${nanosText(operation.called_ns - zero)}`,
    isOpen(operation)
      ? operation.progress === "aborted"
        ? "aborted"
        : "not done"
      : `seen done ${nanosText(operation.done_ns - operation.called_ns)} later`,
    operation.site === "" ? "" : `at ${operation.site}`,
    absent,
  ];
  return parts.filter((part) => part !== "").join(" · ");
}

function Chart(props: { history: History; streams: StreamHistory[]; verdict: Verdict | null }) {
  const { history, streams, verdict } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const palette = usePalette();
  const whole = useMemo(() => wholeSpan(history), [history]);
  const [wanted, setSpan] = useState<TimeSpan | null>(null);
  const span = wanted === null ? whole : panned(wanted, whole, 0);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [reveal, setReveal] = useState<{ top: number; bottom: number; above: number } | null>(null);
  const zero = history.stalled_at_ns > 0 ? history.stalled_at_ns : whole.to;
  const label = width < 600 ? 74 : 150;
  const chartWidth = Math.max(50, width - 2 - label);
  const scale = chartWidth / (span.to - span.from);
  const xOf = (time: number) => label + (time - span.from) * scale;
  const timeOf = (x: number) => span.from + (x - label) / scale;
  const lanes = useMemo(() => lanesOf(streams, kMostLanes), [streams]);
  const row_height = lanes * kLane + 6;
  const contentHeight = kAxis + streams.length * row_height;
  const height = Math.min(contentHeight + 2, 520);
  const places = useMemo(() => {
    const found = new Map<string, number>();
    for (const stream of history.streams) {
      for (const operation of stream.operations) {
        if (!found.has(operation.comm_name)) found.set(operation.comm_name, found.size);
      }
    }
    return found;
  }, [history]);
  const colourOf = (name: string) => `series-${(places.get(name) ?? 0) % kColours}`;

  const draw = (context: CanvasRenderingContext2D, visible: Visible) => {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const patterns = new Map<string, CanvasPattern | string>();
    const first = Math.max(0, Math.floor(visible.top / row_height));
    const last = Math.min(streams.length, Math.ceil((visible.top + visible.height) / row_height));
    const right = label + chartWidth;
    context.fillStyle = palette("line");
    for (const tick of ticks(span, zero, chartWidth / 110)) {
      context.fillRect(Math.round(xOf(tick)), kAxis, 1, visible.height);
    }
    for (let r = first; r < last; ++r) {
      const stream = streams[r]!;
      const y = kAxis + r * row_height - visible.top;
      const { operations } = stream;
      let painted = -Infinity;
      let lane = operations.slice(0, lowerBound(operations, span.from)).filter(isOpen).length - 1;
      for (let i = lowerBound(operations, span.from); i < operations.length; ++i) {
        const operation = operations[i]!;
        if (operation.called_ns > span.to) break;
        const open = isOpen(operation);
        if (open) ++lane;
        const x1 = Math.max(label, xOf(operation.called_ns));
        const x2 = open ? right : Math.min(right, xOf(operation.done_ns));
        if (x2 < label || (!open && x2 < painted)) continue;
        const colour = palette(colourOf(operation.comm_name));
        const size = Math.max(1, x2 - x1);
        const top = y + 3 + (open ? Math.min(lane, lanes - 1) * kLane : 0);
        if (open) {
          let pattern = patterns.get(colour);
          if (pattern === undefined) {
            pattern = hatch(context, colour);
            patterns.set(colour, pattern);
          }
          context.fillStyle = palette("panel");
          context.fillRect(x1, top, size, kBar);
          context.fillStyle = pattern;
          context.fillRect(x1, top, size, kBar);
          context.fillStyle = colour;
          context.fillRect(x1, top, 3, kBar);
          const text = cutTo(operationText(operation), Math.floor((size - 20) / 6.6));
          if (size > 60) {
            context.fillStyle = palette("panel");
            context.fillRect(x1 + 6, top + 1, context.measureText(text).width + 8, kBar - 2);
            context.fillStyle = palette("text");
            context.fillText(text, x1 + 10, top + kBar / 2 + 0.5);
          }
        } else {
          painted = x1 + size;
          context.fillStyle = colour;
          context.fillRect(x1, top, size > 3 ? size - 1 : size, kBar);
          if (size > 44) {
            context.fillStyle = palette("series-text");
            const text = cutTo(operationText(operation), Math.floor((size - 8) / 6.6));
            context.fillText(text, x1 + 5, top + kBar / 2 + 0.5);
          }
        }
        if (chosen?.row === r && chosen.operation === i) {
          context.strokeStyle = palette("focus");
          context.lineWidth = 2;
          context.strokeRect(x1, top, Math.max(4, size - 1), kBar);
        }
      }
      context.fillStyle = palette("line");
      context.fillRect(label, y + row_height - 1, chartWidth, 1);
    }
    if (history.stalled_at_ns > 0) {
      const x = Math.round(xOf(history.stalled_at_ns));
      if (x >= label && x <= right) {
        context.fillStyle = palette("bad-text");
        context.fillRect(x - 1, kAxis - 8, 2, visible.height);
      }
    }
    drawLabels(context, visible, first, last);
    drawAxis(context);
  };

  const drawLabels = (
    context: CanvasRenderingContext2D,
    visible: Visible,
    first: number,
    last: number,
  ) => {
    context.fillStyle = palette("panel");
    context.fillRect(0, 0, label - 1, visible.height);
    context.fillStyle = palette("line");
    context.fillRect(label - 1, 0, 1, visible.height);
    const culprits = new Set(verdict?.culprit_ranks ?? []);
    for (let r = first; r < last; ++r) {
      const stream = streams[r]!;
      const y = kAxis + r * row_height - visible.top + 3 + kBar / 2;
      const culprit = culprits.has(stream.rank);
      context.fillStyle = palette(culprit ? "bad-text" : "text");
      const name = `${culprit ? "▶ " : ""}${label < 100 ? "" : "rank "}${stream.rank}`;
      context.fillText(name, 6, y);
      const used = context.measureText(name).width;
      context.fillStyle = palette("dim");
      context.fillText(cutTo(stream.stream, 12), 14 + used, y, label - used - 20);
    }
  };

  const drawAxis = (context: CanvasRenderingContext2D) => {
    context.fillStyle = palette("panel");
    context.fillRect(0, 0, label + chartWidth, kAxis - 1);
    context.fillStyle = palette("line");
    context.fillRect(0, kAxis - 1, label + chartWidth, 1);
    context.textAlign = "center";
    const stall = history.stalled_at_ns > 0 ? xOf(history.stalled_at_ns) : -1000;
    for (const tick of ticks(span, zero, chartWidth / 110)) {
      const x = xOf(tick);
      if (Math.abs(x - stall) < 60 || x < label + 24) continue;
      context.fillStyle = palette("dim");
      context.fillText(nanosText(tick - zero), x, kAxis / 2);
    }
    if (stall >= label && stall <= label + chartWidth) {
      context.fillStyle = palette("bad-text");
      context.fillText("stalled", Math.min(stall, label + chartWidth - 24), kAxis / 2);
    }
    context.textAlign = "left";
  };

  const operationAt = (x: number, y: number, visible: Visible): Chosen | null => {
    if (x < label || y < kAxis) return null;
    const row = Math.floor((y - kAxis + visible.top) / row_height);
    const operations = streams[row]?.operations;
    if (operations === undefined) return null;
    const time = timeOf(x);
    let best: Chosen | null = null;
    for (let i = lowerBound(operations, time - 2 / scale); i < operations.length; ++i) {
      if (operations[i]!.called_ns > time + 2 / scale) break;
      best = { row, operation: i };
    }
    return best;
  };

  const choose = (row: number, operation: number) => {
    const toRow = Math.max(0, Math.min(streams.length - 1, row));
    const operations = streams[toRow]?.operations ?? [];
    const to = Math.max(0, Math.min(operations.length - 1, operation));
    setChosen({ row: toRow, operation: to });
    const top = kAxis + toRow * row_height;
    setReveal({ top, bottom: top + row_height, above: kAxis });
    const called = operations[to]?.called_ns;
    if (called !== undefined && (called < span.from || called > span.to)) {
      setSpan(panned(span, whole, called - (span.from + span.to) / 2));
    }
  };

  const zoom = (factor: number, at = (span.from + span.to) / 2) =>
    setSpan(zoomed(span, whole, at, factor));

  const key = (event: KeyboardEvent): boolean => {
    if (event.ctrlKey || event.altKey || event.metaKey) return false;
    const at = chosen ?? { row: -1, operation: Infinity };
    const step = (span.to - span.from) / 5;
    const acts: Record<string, () => void> = {
      "+": () => zoom(1 / 1.6),
      "=": () => zoom(1 / 1.6),
      "-": () => zoom(1.6),
      "0": () => setSpan(null),
      ArrowDown: () => choose(at.row + 1, Infinity),
      j: () => choose(at.row + 1, Infinity),
      ArrowUp: () => choose(at.row - 1, Infinity),
      k: () => choose(at.row - 1, Infinity),
      ArrowRight: () =>
        event.shiftKey ? setSpan(panned(span, whole, step)) : choose(at.row, at.operation + 1),
      ArrowLeft: () =>
        event.shiftKey ? setSpan(panned(span, whole, -step)) : choose(at.row, at.operation - 1),
    };
    const act = acts[event.key];
    if (act === undefined || streams.length === 0) return false;
    act();
    return true;
  };

  const stream = chosen === null ? undefined : streams[chosen.row];
  const operation = stream?.operations[chosen?.operation ?? -1];
  return (
    <div ref={box}>
      <div class="tools">
        <button type="button" class="button" onClick={() => zoom(1 / 1.6)} aria-label="Zoom in">
          +
        </button>
        <button type="button" class="button" onClick={() => zoom(1.6)} aria-label="Zoom out">
          −
        </button>
        <button type="button" class="button" onClick={() => setSpan(null)}>
          Show all
        </button>
        <button
          type="button"
          class="button"
          onClick={() => {
            const length = (whole.to - whole.from) / 20;
            setSpan(panned({ from: zero - length * 0.75, to: zero + length * 0.25 }, whole, 0));
          }}
        >
          Go to the stall
        </button>
        <ul class="legend">
          <li>
            <span class="swatch hatched"> </span> not done
          </li>
          <li>
            <span class="bad">│</span> stalled
          </li>
          {places.size <= kMostNamed ? (
            [...places.keys()].map((name) => (
              <li key={name}>
                <span class={`swatch ${colourOf(name)}`}> </span> {name}
              </li>
            ))
          ) : (
            <li class="dim">colour: communicator</li>
          )}
        </ul>
      </div>
      <ScrollCanvas
        label="Timeline; arrow keys move between streams and operations, + and - zoom"
        describedBy="timeline-operation"
        contentWidth={Math.max(1, width - 2)}
        contentHeight={contentHeight}
        height={height}
        draw={draw}
        onHover={(x, y, visible) => {
          const at = operationAt(x, y, visible);
          if (at?.row !== chosen?.row || at?.operation !== chosen?.operation) {
            if (at !== null) setChosen(at);
          }
        }}
        onPress={(x, y, visible) => setChosen(operationAt(x, y, visible))}
        onDrag={(dx) => setSpan(panned(span, whole, -dx / scale))}
        onWheel={(event, x) => {
          if (x < label) return false;
          if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            setSpan(panned(span, whole, (event.deltaX || event.deltaY) / scale));
            return true;
          }
          const isWhole = span.to - span.from >= (whole.to - whole.from) * 0.999;
          if (event.deltaY > 0 && isWhole) return false;
          zoom(Math.exp(event.deltaY * 0.002), timeOf(x));
          return true;
        }}
        onKey={key}
        reveal={reveal}
      />
      <p id="timeline-operation" class="inspector" aria-live="polite">
        {stream !== undefined && operation !== undefined
          ? operationLine(stream, operation, zero, verdict)
          : "Point at an operation, or move with the arrow keys. The wheel zooms, dragging pans."}
      </p>
    </div>
  );
}

interface Unfinished {
  title: string;
  ranks: number[];
  absent: string;
}

function NotDone(props: { history: History; verdict: Verdict | null }) {
  const list = useMemo(() => {
    const found = new Map<string, Unfinished>();
    for (const stream of props.history.streams) {
      for (const operation of stream.operations) {
        if (!isOpen(operation)) continue;
        const title = operationText({ ...operation, op: instanceOp(operation.op) });
        const known = found.get(title);
        if (known !== undefined) {
          known.ranks.push(stream.rank);
          continue;
        }
        const absent = absentText(absentees(props.verdict, operation));
        found.set(title, { title, ranks: [stream.rank], absent });
      }
    }
    return [...found.values()].sort((a, b) => Number(b.absent !== "") - Number(a.absent !== ""));
  }, [props.history, props.verdict]);
  if (list.length === 0) return null;
  return (
    <section class="card" aria-labelledby="open-title">
      <h2 id="open-title">Not done, and who has not come</h2>
      <ul class="plain spaced">
        {list.slice(0, 20).map((item) => (
          <li key={item.title}>
            <strong class="mono">{item.title}</strong> called by {ranksText(item.ranks, 6)}
            {item.absent !== "" && (
              <>
                ; <strong>{item.absent}</strong>
              </>
            )}
          </li>
        ))}
      </ul>
      {list.length > 20 && <p class="dim">and {plural(list.length - 20, "more operation")}</p>}
    </section>
  );
}

export function TimelineView() {
  const { page } = usePage();
  const [filter, setFilter] = useParam("filter");
  const { history, verdict } = page;
  const streams = useMemo(() => {
    if (history === null) return [];
    const wanted = filter.trim();
    const range = /^(\d+)(?:-(\d+))?$/.exec(wanted);
    const ordered = orderedStreams(history, new Set(verdict?.culprit_ranks ?? []));
    if (wanted === "") return ordered;
    if (range !== null) {
      const from = Number(range[1]);
      const to = range[2] === undefined ? from : Number(range[2]);
      return ordered.filter((stream) => stream.rank >= from && stream.rank <= to);
    }
    return ordered.filter((s) => s.operations.some((o) => operationText(o).includes(wanted)));
  }, [history, verdict, filter]);
  if (history === null) return <NoHistory what="timeline" />;
  if (history.streams.length === 0) {
    return <Notice>The record holds no operation on a stream.</Notice>;
  }
  return (
    <>
      <section class="card" aria-labelledby="time-title">
        <div class="card-head">
          <h2 id="time-title">The last operations of each stream</h2>
          <p class="dim">{plural(streams.length, "stream")}, times relative to the stall</p>
        </div>
        <Filter label="Filter: ranks 0-7, operation" value={filter} onChange={setFilter} />
        <Chart history={history} streams={streams} verdict={verdict} />
        <p class="dim small">
          A bar ends when gordian saw the operation done at all of its ranks: later than it was.
        </p>
        {history.notes.map((note, i) => (
          <p key={i} class="dim small">
            {note}
          </p>
        ))}
      </section>
      <NotDone history={history} verdict={verdict} />
    </>
  );
}
