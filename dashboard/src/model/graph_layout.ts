// Places the nodes of the wait-for graph, and draws its arrows as paths: the cycle on a ring or,
// where there is little room, one below the other; the waiting groups beside or below it.
import type { GraphEdge, GraphNode, WaitGraph } from "./wait_graph";

export interface Box {
  node: GraphNode;
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Arrow {
  edge: GraphEdge;
  path: string;
  label_x: number;
  label_y: number;
  anchor: "start" | "middle" | "end";
  show_label: boolean;
}

export interface Layout {
  width: number;
  height: number;
  boxes: Box[];
  arrows: Arrow[];
}

const kHeight = 62;
const kGap = 14;
const kBeside = 60; // between the cycle and the groups beside it
const kLabel = 150; // beside a column, for the labels of its arrows
const kBetween = 64; // room for the label of an arrow of the cycle
const kMostOnRing = 8;

interface Point {
  x: number;
  y: number;
}

function centre(box: Box): Point {
  return { x: box.x + box.w / 2, y: box.y + box.h / 2 };
}

// Where the line from the middle of the box to `to` leaves the box.
function border(box: Box, to: Point): Point {
  const from = centre(box);
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  if (dx === 0 && dy === 0) return from;
  const scale = Math.min(
    dx === 0 ? Infinity : box.w / 2 / Math.abs(dx),
    dy === 0 ? Infinity : box.h / 2 / Math.abs(dy),
  );
  return { x: from.x + dx * scale, y: from.y + dy * scale };
}

function curve(from: Point, to: Point, bend: number): { path: string; middle: Point } {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const nx = (-(to.y - from.y) / length) * bend;
  const ny = ((to.x - from.x) / length) * bend;
  const c = { x: (from.x + to.x) / 2 + nx, y: (from.y + to.y) / 2 + ny };
  return {
    path: `M${from.x},${from.y} Q${c.x},${c.y} ${to.x},${to.y}`,
    middle: { x: (from.x + 2 * c.x + to.x) / 4, y: (from.y + 2 * c.y + to.y) / 4 },
  };
}

export function layoutGraph(graph: WaitGraph, width: number): Layout {
  const core = graph.nodes.filter((node) => node.hop === 0);
  const groups = [1, 2]
    .map((hop) => graph.nodes.filter((node) => node.hop === hop))
    .filter((nodes) => nodes.length > 0);
  const wide = width >= 760;
  const w = wide ? Math.min(236, width * 0.24) : Math.min(236, width - 84);
  const beside = wide ? groups.length * (w + kBeside) : 0;
  const rx = 90 + core.length * 40;
  const mayRing = graph.has_cycle && wide && core.length > 2 && core.length <= kMostOnRing;
  const onRing = mayRing && width - beside >= 2 * w + 60;
  const wanted = onRing ? 2 * rx + w + 20 : w + 2 * kLabel;
  const coreWidth = wide ? Math.min(width - beside, wanted) : width;

  const boxes: Box[] = [];
  const boxOf = new Map<string, Box>();
  const put = (node: GraphNode, x: number, y: number) => {
    const box = { node, x, y, w, h: kHeight };
    boxes.push(box);
    boxOf.set(node.id, box);
  };
  let bottom = 8;
  if (onRing) {
    const radius = Math.min((coreWidth - w) / 2 - 10, rx);
    const ry = Math.max(110, core.length * 36);
    core.forEach((node, i) => {
      const angle = (2 * Math.PI * i) / core.length - Math.PI / 2;
      const x = coreWidth / 2 + radius * Math.cos(angle) - w / 2;
      put(node, x, 8 + ry + ry * Math.sin(angle));
    });
    bottom = 8 + 2 * ry + kHeight;
  } else {
    const between = !graph.has_cycle ? kGap : core.length === 2 ? 108 : kBetween;
    core.forEach((node, i) => put(node, (coreWidth - w) / 2, 8 + i * (kHeight + between)));
    bottom = 8 + core.length * (kHeight + between) - between;
  }
  const coreBottom = bottom;
  groups.forEach((nodes, column) => {
    if (wide) {
      const x = coreWidth + column * (w + kBeside) + kBeside - 1;
      const total = nodes.length * (kHeight + kGap) - kGap;
      const start = Math.max(8, 8 + (coreBottom - 8 - total) / 2);
      nodes.forEach((node, i) => put(node, x, start + i * (kHeight + kGap)));
      bottom = Math.max(bottom, start + total);
    } else {
      bottom += 40;
      nodes.forEach((node) => {
        put(node, (width - w) / 2, bottom);
        bottom += kHeight + kGap;
      });
      bottom -= kGap;
    }
  });

  const arrows: Arrow[] = [];
  const order = new Map(core.map((node, i) => [node.id, i] as const));
  for (const edge of graph.edges) {
    const from = boxOf.get(edge.from);
    const to = boxOf.get(edge.to);
    if (from === undefined || to === undefined) continue;
    if (!edge.in_cycle) {
      arrows.push(groupArrow(edge, from, to, wide, arrows.length % 3));
    } else if (onRing) {
      const a = border(from, centre(to));
      const b = border(to, centre(from));
      const { path, middle } = curve(a, b, -14);
      arrows.push({ edge, path, ...ringLabel(a, b, middle, coreWidth / 2), show_label: true });
    } else {
      arrows.push(columnArrow(edge, from, to, core.length, order, wide));
    }
  }
  return { width: wide ? coreWidth + beside : width, height: bottom + 12, boxes, arrows };
}

// The label of an arrow of a ring: outside of the ring, and below an arrow between two boxes of one
// height, which leaves no room in between.
function ringLabel(
  a: Point,
  b: Point,
  at: Point,
  cx: number,
): Pick<Arrow, "label_x" | "label_y" | "anchor"> {
  if (Math.abs(a.y - b.y) < kHeight / 2) {
    return { label_x: at.x, label_y: at.y + kHeight / 2 + 24, anchor: "middle" };
  }
  const right = at.x > cx;
  return { label_x: at.x + (right ? 10 : -10), label_y: at.y, anchor: right ? "start" : "end" };
}

// An arrow of a cycle whose ranks stand one below the other.
function columnArrow(
  edge: GraphEdge,
  from: Box,
  to: Box,
  size: number,
  order: ReadonlyMap<string, number>,
  wide: boolean,
): Arrow {
  const a = order.get(edge.from) ?? 0;
  const b = order.get(edge.to) ?? 0;
  if (size === 2 || b === a + 1) {
    const down = b > a;
    const shift = size === 2 ? (down ? 26 : -26) : 0;
    const x = from.x + from.w / 2 + shift;
    const y1 = down ? from.y + from.h : from.y;
    const y2 = down ? to.y : to.y + to.h;
    const path = `M${x},${y1} L${x},${y2}`;
    const middle = (y1 + y2) / 2;
    if (!wide) {
      // Labels lie on the arrows; of two, each is nearer to where its own arrow begins.
      const label_y = middle + (size !== 2 ? 0 : down ? -20 : 20);
      const label_x = from.x + from.w / 2;
      return { edge, path, label_x, label_y, anchor: "middle", show_label: true };
    }
    const label_x = x + (down ? 8 : -8);
    const anchor = down ? "start" : "end";
    return { edge, path, label_x, label_y: middle, anchor, show_label: true };
  }
  const x = Math.min(from.x, to.x) - 26;
  const y1 = from.y + from.h / 2;
  const y2 = to.y + to.h / 2;
  const path = `M${from.x},${y1} C${x - 8},${y1} ${x},${y1} ${x},${y1 - 20}
    L${x},${y2 + 20} C${x},${y2} ${x - 8},${y2} ${to.x},${y2}`;
  const label_x = from.x + from.w / 2;
  return { edge, path, label_x, label_y: from.y + from.h + 14, anchor: "middle", show_label: true };
}

// An arrow from a waiting group: from its left side, or on a narrow page along the right margin.
function groupArrow(edge: GraphEdge, from: Box, to: Box, wide: boolean, lane: number): Arrow {
  const y1 = from.y + from.h / 2;
  const y2 = to.y + to.h / 2;
  if (wide) {
    const x1 = from.x;
    const x2 = to.x + to.w;
    const bend = Math.max(30, (x1 - x2) / 2);
    const path = `M${x1},${y1} C${x1 - bend},${y1} ${x2 + bend},${y2} ${x2},${y2}`;
    return {
      edge,
      path,
      label_x: (x1 + x2) / 2,
      label_y: (y1 + y2) / 2,
      anchor: "middle",
      show_label: false,
    };
  }
  const right = from.x + from.w;
  const x = right + 14 + lane * 8;
  const path = `M${right},${y1} C${x},${y1} ${x},${y1} ${x},${y1 - 16}
    L${x},${y2 + 16} C${x},${y2} ${x},${y2} ${right},${y2}`;
  return { edge, path, label_x: x, label_y: y1, anchor: "end", show_label: false };
}
