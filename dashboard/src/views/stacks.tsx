// Stacks, merged into an icicle whose widths are numbers of threads, and as a plain list.
import { useMemo } from "preact/hooks";

import { flameBoxes, flameTree, placeText, type FlameNode } from "../model/flame";
import { foldRanks, plural, ranksText, shellWord } from "../model/text";
import type { FoldedStack, Frame } from "../model/types";
import { useParam, usePage } from "../ui/context";
import { Command } from "../ui/copy";
import { Filter, FrameText, Notice } from "../ui/parts";

const kMostStacks = 200;

function matches(frame: Frame, wanted: string): boolean {
  if (wanted === "") return false;
  return `${frame.function} ${frame.file} ${frame.module}`.toLowerCase().includes(wanted);
}

function boxTitle(node: FlameNode): string {
  const threads = plural(node.threads, "thread");
  if (node.frame === null) return `all: ${threads}`;
  const at = placeText(node.frame);
  const name = `${node.frame.function || "(no name)"}${at === "" ? "" : ` (${at})`}`;
  return `${name}: ${threads}, ${ranksText(node.ranks, 6)}`;
}

function Flame(props: { stacks: FoldedStack[]; wanted: string }) {
  const [zoom, setZoom] = useParam("zoom");
  const tree = useMemo(() => flameTree(props.stacks), [props.stacks]);
  const boxes = useMemo(() => flameBoxes(tree, zoom), [tree, zoom]);
  const depth = boxes.reduce((most, box) => Math.max(most, box.depth), 0);
  return (
    <div
      class="flame"
      role="group"
      aria-label="Stacks, outermost frame on top; the width is the number of threads"
      style={{ height: `${(depth + 1) * 24}px` }}
    >
      {boxes.map((box) => {
        const { node } = box;
        const marked = node.frame !== null && matches(node.frame, props.wanted);
        const kind = node.frame === null ? "root" : node.frame.python ? "python" : "native";
        return (
          <button
            type="button"
            key={node.id}
            class={`flame-box ${kind}${marked ? " marked" : ""}`}
            title={boxTitle(node)}
            style={{
              left: `${box.left * 100}%`,
              width: `${box.width * 100}%`,
              top: `${box.depth * 24}px`,
            }}
            onClick={() => setZoom(node.id)}
          >
            <span>
              {node.frame === null ? (
                `all ${plural(node.threads, "thread")}`
              ) : (
                <>
                  {marked && "◆ "}
                  {node.frame.python && <span class="tag">py</span>}
                  {node.frame.function || "(no name)"} {placeText(node.frame)}
                  {node.ranks.length > 0 && ` · ${foldRanks(node.ranks, 3)}`}
                </>
              )}
            </span>
          </button>
        );
      })}
    </div>
  );
}

function Stack(props: { stack: FoldedStack; wanted: string }) {
  const { stack, wanted } = props;
  const names = [...new Set(stack.threads.map((thread) => thread.name))];
  const first = stack.threads[0];
  return (
    <div class="stack">
      <h3 class="stack-head">
        {stack.ranks.length > 0 ? ranksText(stack.ranks, 12) : "a process without a rank"}
        <span class="dim">
          {names.length > 0 && `, thread ${names.slice(0, 4).join(", ")}`}
          {stack.threads.length > 1 && ` (${plural(stack.threads.length, "thread")})`}
          {stack.threads.length === 1 &&
            first !== undefined &&
            ` (pid ${first.pid}, tid ${first.tid})`}
        </span>
      </h3>
      <ol class="frames">
        {stack.frames.map((frame, i) => (
          <li key={i}>
            <FrameText frame={frame} marked={matches(frame, wanted)} />
          </li>
        ))}
      </ol>
    </div>
  );
}

export function StacksView() {
  const { page } = usePage();
  const [search, setSearch] = useParam("search");
  const wanted = search.trim().toLowerCase();
  const stacks = page.verdict?.stacks ?? [];
  if (stacks.length === 0) {
    return (
      <Notice>
        No stacks: gordian reads them when something is stuck, of the threads that it concerns.
      </Notice>
    );
  }
  const listed =
    wanted === ""
      ? stacks
      : stacks.filter((stack) => stack.frames.some((frame) => matches(frame, wanted)));
  const threads = stacks.reduce((sum, stack) => sum + Math.max(1, stack.threads.length), 0);
  const session = shellWord(page.session === "" ? "latest" : page.session);
  return (
    <>
      <section class="card" aria-labelledby="flame-title">
        <div class="card-head">
          <h2 id="flame-title">Where the threads are</h2>
          <p class="dim">
            {plural(threads, "thread")} in {plural(stacks.length, "stack")}
          </p>
        </div>
        <div class="tools">
          <Filter label="Search: function, file, module" value={search} onChange={setSearch} />
          <ul class="legend">
            <li>
              <span class="swatch python">py</span> Python
            </li>
            <li>
              <span class="swatch native"> </span> native
            </li>
            {wanted !== "" && <li>◆ found</li>}
          </ul>
        </div>
        <Flame stacks={stacks} wanted={wanted} />
        <p class="dim small">
          Outermost frame on top. Press a frame to zoom, the top row to go back.
        </p>
      </section>
      <section class="card" aria-labelledby="list-title">
        <div class="card-head">
          <h2 id="list-title">As a list, innermost frame first</h2>
          {wanted !== "" && (
            <p class="dim">{`${plural(listed.length, "stack")} with “${search}”`}</p>
          )}
        </div>
        {listed.slice(0, kMostStacks).map((stack, i) => (
          <Stack key={i} stack={stack} wanted={wanted} />
        ))}
        {listed.length > kMostStacks && (
          <p class="dim">and {plural(listed.length - kMostStacks, "more stack")}</p>
        )}
        <Command what="The same in a terminal" command={`gordian explain ${session}`} />
      </section>
    </>
  );
}
