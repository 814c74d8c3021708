// Merges stacks into one tree of frames, outermost first, whose widths are numbers of threads.
import type { FoldedStack, Frame } from "./types";

export interface FlameNode {
  id: string; // the path of places in the tree, "0.2.1"
  frame: Frame | null; // null: the root
  threads: number;
  ranks: number[];
  children: FlameNode[];
}

function frameKey(frame: Frame): string {
  return `${frame.function}\n${frame.file}\n${frame.line}\n${frame.module}`;
}

export function flameTree(stacks: readonly FoldedStack[]): FlameNode {
  const root: FlameNode = { id: "", frame: null, threads: 0, ranks: [], children: [] };
  const byKey = new Map<FlameNode, Map<string, FlameNode>>();
  for (const stack of stacks) {
    const threads = Math.max(1, stack.threads.length);
    let at = root;
    at.threads += threads;
    at.ranks.push(...stack.ranks);
    for (let i = stack.frames.length - 1; i >= 0; --i) {
      const frame = stack.frames[i]!;
      let known = byKey.get(at);
      if (known === undefined) {
        known = new Map();
        byKey.set(at, known);
      }
      let child = known.get(frameKey(frame));
      if (child === undefined) {
        const id = at.id === "" ? `${at.children.length}` : `${at.id}.${at.children.length}`;
        child = { id, frame, threads: 0, ranks: [], children: [] };
        known.set(frameKey(frame), child);
        at.children.push(child);
      }
      child.threads += threads;
      child.ranks.push(...stack.ranks);
      at = child;
    }
  }
  return root;
}

export interface FlameBox {
  node: FlameNode;
  depth: number;
  left: number; // 0 to 1
  width: number;
}

// The boxes to draw when the node `zoomed` fills the width; its ancestors fill it too. Leaves out
// what would be narrower than `least`.
export function flameBoxes(root: FlameNode, zoomed: string, least = 0.002): FlameBox[] {
  const boxes: FlameBox[] = [];
  const place = (node: FlameNode, depth: number, left: number, width: number) => {
    boxes.push({ node, depth, left, width });
    const onPath = zoomed !== node.id && isWithin(zoomed, node.id);
    const target = onPath ? node.children.find((child) => isWithin(zoomed, child.id)) : undefined;
    if (target !== undefined) {
      place(target, depth + 1, left, width);
      return;
    }
    let at = left;
    for (const child of node.children) {
      const size = (width * child.threads) / Math.max(1, node.threads);
      if (size >= least) place(child, depth + 1, at, size);
      at += size;
    }
  };
  place(root, 0, 0, 1);
  return boxes;
}

function isWithin(id: string, ancestor: string): boolean {
  return ancestor === "" || id === ancestor || id.startsWith(ancestor + ".");
}

// "train.cc:123", "libcudart.so.13", or "".
export function placeText(frame: Frame): string {
  const name = (path: string) => path.slice(path.lastIndexOf("/") + 1);
  if (frame.file !== "")
    return frame.line > 0 ? `${name(frame.file)}:${frame.line}` : name(frame.file);
  return name(frame.module);
}
