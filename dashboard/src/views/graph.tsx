// The wait-for graph: the cycle, or who has not come, and the groups that wait behind it.
import { useMemo, useRef, useState } from "preact/hooks";

import { layoutGraph, type Arrow, type Box } from "../model/graph_layout";
import { count, cutTo, plural, ranksText } from "../model/text";
import type { FoldedStack } from "../model/types";
import { waitGraph, type GraphEdge, type GraphNode, type WaitGraph } from "../model/wait_graph";
import { useParam, usePage } from "../ui/context";
import { FrameText, Notice, ViewLink } from "../ui/parts";
import { useWidth } from "../ui/size";
import { SourceLines } from "../ui/source";

const kFirstGroups = 8;
const kMostCore = 24;

// The part of the graph to draw: a few groups a hop, and what they leave out.
function capped(graph: WaitGraph, groups: number): { drawn: WaitGraph; hidden: GraphNode[] } {
  const taken = [0, 0, 0];
  const keep = new Set<string>();
  const hidden: GraphNode[] = [];
  for (const node of graph.nodes) {
    const most = node.hop === 0 ? kMostCore : groups;
    if (taken[node.hop]! < most) {
      ++taken[node.hop]!;
      keep.add(node.id);
    } else {
      hidden.push(node);
    }
  }
  const drawn = {
    ...graph,
    nodes: graph.nodes.filter((node) => keep.has(node.id)),
    edges: graph.edges.filter((edge) => keep.has(edge.from) && keep.has(edge.to)),
  };
  return { drawn, hidden };
}

function pressed(event: KeyboardEvent): boolean {
  return event.key === "Enter" || event.key === " ";
}

function nodeLabel(node: GraphNode): string {
  const site = node.site === "" ? "" : ` at ${node.site}`;
  return `${ranksText(node.ranks, 6)}: ${node.what || "waits"}${site}`;
}

function NodeBox(props: { box: Box; culprit: boolean; chosen: boolean; onChoose: () => void }) {
  const { box, culprit } = props;
  const { node } = box;
  const fit = Math.floor((box.w - 22) / 7);
  const many = node.ranks.length > 1 ? ` · ${count(node.ranks.length)}` : "";
  const who = cutTo(ranksText(node.ranks, 3), fit - many.length);
  const title = `${culprit ? "▶ " : ""}${who}${many}`;
  const kind = node.hop === 0 ? "core" : "group";
  return (
    <g
      class={`node ${kind}${culprit ? " culprit" : ""}${props.chosen ? " chosen" : ""}`}
      role="button"
      tabindex={0}
      aria-pressed={props.chosen}
      onClick={props.onChoose}
      onKeyDown={(event) => {
        if (!pressed(event)) return;
        event.preventDefault();
        props.onChoose();
      }}
    >
      <rect x={box.x} y={box.y} width={box.w} height={box.h} rx="6" />
      <text class="node-title" x={box.x + 11} y={box.y + 19}>
        {`${title} `}
      </text>
      <text class="node-line" x={box.x + 11} y={box.y + 36}>
        {`${cutTo(node.what, fit)} `}
      </text>
      <text class="node-site" x={box.x + 11} y={box.y + 52}>
        {cutTo(node.site, fit)}
      </text>
      <title>{nodeLabel(node)}</title>
    </g>
  );
}

function ArrowLine(props: {
  arrow: Arrow;
  from: string;
  to: string;
  chosen: boolean;
  onChoose: () => void;
}) {
  const { arrow } = props;
  const { edge } = arrow;
  const kind = edge.in_cycle ? "in-cycle" : "to-core";
  const label = cutTo(edge.label, 26);
  return (
    <g
      class={`edge ${kind}${props.chosen ? " chosen" : ""}`}
      role="button"
      tabindex={0}
      aria-pressed={props.chosen}
      aria-label={`${label}: ${props.from} waits for ${props.to}`}
      onClick={props.onChoose}
      onKeyDown={(event) => {
        if (!pressed(event)) return;
        event.preventDefault();
        props.onChoose();
      }}
    >
      <path class="hit" d={arrow.path} />
      <path
        class="stroke"
        d={arrow.path}
        marker-end={edge.in_cycle ? "url(#head-cycle)" : "url(#head-group)"}
      />
      {arrow.show_label && (
        <text x={arrow.label_x} y={arrow.label_y} text-anchor={arrow.anchor} dy="0.32em">
          {label}
        </text>
      )}
    </g>
  );
}

export function StacksOf(props: { stacks: readonly FoldedStack[]; ranks: readonly number[] }) {
  const wanted = new Set(props.ranks);
  const found = props.stacks.filter((stack) => stack.ranks.some((rank) => wanted.has(rank)));
  if (found.length === 0) return <p class="dim small">No stack of these ranks was read.</p>;
  return (
    <>
      {found.slice(0, 3).map((stack, i) => (
        <div key={i} class="stack">
          <p class="stack-head">
            {ranksText(stack.ranks, 4)}
            {stack.threads[0] !== undefined && (
              <span class="dim">
                , thread <span class="mono">{stack.threads[0].name}</span>
              </span>
            )}
          </p>
          <ol class="frames">
            {stack.frames.slice(0, 12).map((frame, j) => (
              <li key={j}>
                <FrameText frame={frame} />
              </li>
            ))}
          </ol>
        </div>
      ))}
      {found.length > 3 && (
        <ViewLink view="stacks">{`and ${plural(found.length - 3, "more stack")}`}</ViewLink>
      )}
    </>
  );
}

function Place(props: { who: string; site: string }) {
  return (
    <div class="place">
      <h3>
        {props.who}
        {props.site !== "" && <span class="mono site"> at {props.site}</span>}
      </h3>
      {props.site === "" ? (
        <p class="dim small">The call site is not known.</p>
      ) : (
        <SourceLines site={props.site} />
      )}
    </div>
  );
}

function EdgeDetail(props: { edge: GraphEdge; from: GraphNode; to: GraphNode }) {
  const { page } = usePage();
  const { edge, from, to } = props;
  const waits = from.ranks.length > 1 ? "wait" : "waits";
  return (
    <section class="card" aria-labelledby="edge-title" id="graph-detail">
      <h2 id="edge-title">
        {`${ranksText(from.ranks, 6)} ${waits} for ${ranksText(to.ranks, 6)}`}
      </h2>
      <p>
        In <strong class="mono">{edge.label}</strong>
        {edge.missing !== "" && `: ${edge.missing}`}
      </p>
      {edge.detail !== "" && <p class="because">because {edge.detail}</p>}
      <div class="columns">
        <div class="column">
          <Place who={ranksText(from.ranks, 6)} site={edge.from_site} />
          <StacksOf stacks={page.verdict?.stacks ?? []} ranks={from.ranks} />
        </div>
        <div class="column">
          <Place who={ranksText(to.ranks, 6)} site={edge.to_site} />
          <StacksOf stacks={page.verdict?.stacks ?? []} ranks={to.ranks} />
        </div>
      </div>
    </section>
  );
}

function NodeDetail(props: { node: GraphNode }) {
  const { page } = usePage();
  const { node } = props;
  return (
    <section class="card" aria-labelledby="node-title" id="graph-detail">
      <h2 id="node-title">{ranksText(node.ranks, 20)}</h2>
      {node.what !== "" && <p class="mono">{node.what}</p>}
      <div class="columns">
        <div class="column">
          <Place who="Call site" site={node.site} />
        </div>
        <div class="column">
          <h3>Stacks</h3>
          <StacksOf stacks={page.verdict?.stacks ?? []} ranks={node.ranks} />
        </div>
      </div>
    </section>
  );
}

function Picture(props: { graph: WaitGraph; chosen: string; choose: (id: string) => void }) {
  const { page } = usePage();
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const layout = useMemo(
    () => layoutGraph(props.graph, Math.max(280, width)),
    [props.graph, width],
  );
  const culprits = new Set(page.verdict?.culprit_ranks ?? []);
  const names = new Map(props.graph.nodes.map((node) => [node.id, ranksText(node.ranks, 4)]));
  return (
    <div ref={box} class="graph">
      {width > 0 && (
        <svg
          role="group"
          aria-label="Wait-for graph"
          width={layout.width}
          height={layout.height}
          viewBox={`0 0 ${layout.width} ${layout.height}`}
        >
          <defs>
            {["cycle", "group"].map((kind) => (
              <marker
                key={kind}
                id={`head-${kind}`}
                class={`head-${kind}`}
                viewBox="0 0 10 10"
                refX="9"
                refY="5"
                markerWidth="10"
                markerHeight="10"
                markerUnits="userSpaceOnUse"
                orient="auto"
              >
                <path d="M0,0.5 L10,5 L0,9.5 z" />
              </marker>
            ))}
          </defs>
          {layout.arrows.map((arrow) => (
            <ArrowLine
              key={arrow.edge.id}
              arrow={arrow}
              from={names.get(arrow.edge.from) ?? ""}
              to={names.get(arrow.edge.to) ?? ""}
              chosen={props.chosen === arrow.edge.id}
              onChoose={() => props.choose(arrow.edge.id)}
            />
          ))}
          {layout.boxes.map((node) => (
            <NodeBox
              key={node.node.id}
              box={node}
              culprit={node.node.ranks.some((rank) => culprits.has(rank))}
              chosen={props.chosen === node.node.id}
              onChoose={() => props.choose(node.node.id)}
            />
          ))}
        </svg>
      )}
    </div>
  );
}

export function GraphView() {
  const { page } = usePage();
  const [chosen, choose] = useParam("at");
  const [groups, setGroups] = useState(kFirstGroups);
  const verdict = page.verdict;
  const graph = useMemo(() => (verdict === null ? null : waitGraph(verdict)), [verdict]);
  const shown = useMemo(() => (graph === null ? null : capped(graph, groups)), [graph, groups]);
  if (graph === null || shown === null || graph.nodes.length === 0) {
    return <Notice>No rank waits for another in a way that gordian calls a problem.</Notice>;
  }
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const edge = graph.edges.find((candidate) => candidate.id === chosen);
  const node = nodes.get(chosen);
  const from = nodes.get(edge?.from ?? "");
  const to = nodes.get(edge?.to ?? "");
  const hiddenRanks = shown.hidden.reduce((sum, group) => sum + group.ranks.length, 0);
  return (
    <>
      <section class="card" aria-labelledby="graph-title">
        <div class="card-head">
          <h2 id="graph-title">Who waits for whom</h2>
          <ul class="legend">
            {graph.has_cycle && (
              <li>
                <span class="line-sample thick" aria-hidden="true" /> cycle
              </li>
            )}
            <li>
              <span class="line-sample thin" aria-hidden="true" />{" "}
              {graph.has_cycle ? "waits behind it" : "waits"}
            </li>
            <li>
              <span class="bad">▶</span> culprit
            </li>
          </ul>
        </div>
        <Picture graph={shown.drawn} chosen={chosen} choose={choose} />
        {shown.hidden.length > 0 && (
          <p>
            and {plural(shown.hidden.length, "more group")} with {plural(hiddenRanks, "rank")}{" "}
            <button type="button" class="button" onClick={() => setGroups(groups * 4)}>
              Show more
            </button>
          </p>
        )}
        {graph.left_out.length > 0 && (
          <p class="dim">
            {plural(graph.left_out.length, "rank")} further away, or not known to wait:{" "}
            {ranksText(graph.left_out, 8)}
          </p>
        )}
        {edge === undefined && node === undefined && (
          <p class="dim small">Choose an arrow or a box to see its call sites and stacks.</p>
        )}
      </section>
      {edge !== undefined && from !== undefined && to !== undefined && (
        <EdgeDetail edge={edge} from={from} to={to} />
      )}
      {node !== undefined && <NodeDetail node={node} />}
    </>
  );
}
