// Two jobs side by side: what both have, and what differs.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { fetchPage } from "../data/page";
import { compare, lastText, type CommunicatorPair, type Comparison } from "../model/compare";
import { count, foldRanks, plural, printable } from "../model/text";
import type { Communicator, JobRow, PageDocument } from "../model/types";
import { KindChip, Notice, Toggle } from "../ui/parts";
import { placeHash, routeHash } from "../ui/route";

const kMostCommunicators = 100;
const kMostSites = 200;

// The document of a job, once more where its verdict is another.
function usePageOf(job: string, revision: number): [PageDocument | null, string] {
  const [page, setPage] = useState<PageDocument | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let left = false;
    if (job === "") return undefined;
    fetchPage(job).then(
      (made) => {
        if (left) return;
        setPage(made);
        setProblem("");
      },
      (error) => {
        if (!left) setProblem(error instanceof Error ? error.message : String(error));
      },
    );
    return () => {
      left = true;
    };
  }, [job, revision]);
  return [page, problem];
}

function Head(props: { a: PageDocument; b: PageDocument; names: readonly [string, string] }) {
  return (
    <thead>
      <tr>
        <th scope="col">What</th>
        {[props.a, props.b].map((page, i) => (
          <th scope="col" key={i}>
            <a class="mono" href={routeHash(props.names[i]!, "verdict")}>
              {printable(props.names[i]!)}
            </a>{" "}
            <KindChip
              verdict={page.verdict?.verdict ?? ""}
              confidence={page.verdict?.confidence ?? ""}
            />
          </th>
        ))}
      </tr>
    </thead>
  );
}

// A row of both tables; a sign and a word say that it differs, not colour alone.
function Row(props: {
  what: string;
  same: boolean;
  names: readonly [string, string];
  cells: readonly [ComponentChildren, ComponentChildren];
}) {
  return (
    <tr class={props.same ? "" : "differs"}>
      <th scope="row">
        {props.what}
        {!props.same && <span class="differs-mark"> ≠ differs</span>}
      </th>
      {props.cells.map((cell, i) => (
        <td key={i} data-of={printable(props.names[i]!)}>
          {cell}
        </td>
      ))}
    </tr>
  );
}

function CommunicatorCell(props: { comm: Communicator | null }) {
  const { comm } = props;
  if (comm === null) return <span class="dim">has none like it</span>;
  return (
    <>
      {plural(comm.size, "member")} <span class="mono">{`{${foldRanks(comm.ranks)}}`}</span>; last
      collective {lastText(comm)}
      {comm.behind.length > 0 && `; behind: ${foldRanks(comm.behind)}`}
      {comm.site !== "" && (
        <span class="dim">
          {"; made at "}
          <span class="mono">{comm.site}</span>
        </span>
      )}
    </>
  );
}

function Communicators(props: {
  pairs: readonly CommunicatorPair[];
  names: readonly [string, string];
  only: boolean;
}) {
  const differs = (pair: CommunicatorPair) =>
    pair.a === null || pair.b === null || pair.differs.length > 0;
  const wanted = props.only ? props.pairs.filter(differs) : props.pairs;
  const shown = wanted.slice(0, kMostCommunicators);
  return (
    <section class="card" aria-labelledby="comms-title">
      <div class="card-head">
        <h2 id="comms-title">Communicators</h2>
        <p class="dim">
          {count(props.pairs.filter((pair) => !differs(pair)).length)} alike,{" "}
          {count(props.pairs.filter(differs).length)} not
        </p>
      </div>
      {shown.length === 0 && (
        <p class="dim">
          {props.pairs.length === 0
            ? "Neither document names communicators."
            : "All of them are alike."}
        </p>
      )}
      {shown.length > 0 && (
        <table class="compare">
          <thead>
            <tr>
              <th scope="col">Name</th>
              {props.names.map((name, i) => (
                <th scope="col" class="mono" key={i}>
                  {printable(name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((pair, i) => (
              <Row
                key={i}
                what={pair.name}
                same={!differs(pair)}
                names={props.names}
                cells={[<CommunicatorCell comm={pair.a} />, <CommunicatorCell comm={pair.b} />]}
              />
            ))}
          </tbody>
        </table>
      )}
      {wanted.length > shown.length && (
        <p class="dim">and {plural(wanted.length - shown.length, "more communicator")}</p>
      )}
    </section>
  );
}

function Sites(props: { title: string; sites: readonly string[] }) {
  const shown = props.sites.slice(0, kMostSites);
  return (
    <>
      <dt>{props.title}</dt>
      <dd>
        {shown.length === 0 && <span class="dim">none</span>}
        <ul class="plain">
          {shown.map((site) => (
            <li key={site} class="mono">
              {site}
            </li>
          ))}
        </ul>
        {props.sites.length > shown.length &&
          `and ${count(props.sites.length - shown.length)} more`}
      </dd>
    </>
  );
}

function Compared(props: {
  a: PageDocument;
  b: PageDocument;
  names: readonly [string, string];
  found: Comparison;
}) {
  const { found, names } = props;
  const [only, setOnly] = useState(false);
  const facts = only ? found.facts.filter((fact) => !fact.same) : found.facts;
  return (
    <>
      <section class="card" aria-labelledby="facts-title">
        <div class="card-head">
          <h2 id="facts-title">Verdicts</h2>
          <Toggle label="Only what differs" on={only} onChange={setOnly} />
        </div>
        {found.hang !== "" && <p class="summary">{found.hang}</p>}
        <table class="compare">
          <Head a={props.a} b={props.b} names={names} />
          <tbody>
            {facts.map((fact) => (
              <Row
                key={fact.what}
                what={fact.what}
                same={fact.same}
                names={names}
                cells={[fact.a, fact.b]}
              />
            ))}
          </tbody>
        </table>
      </section>
      <Communicators pairs={found.communicators} names={names} only={only} />
      <section class="card" aria-labelledby="sites-title">
        <h2 id="sites-title">Call sites</h2>
        <dl class="facts">
          {!only && <Sites title="In both" sites={found.sites.both} />}
          <Sites title={`Only in ${printable(names[0])}`} sites={found.sites.a} />
          <Sites title={`Only in ${printable(names[1])}`} sites={found.sites.b} />
        </dl>
      </section>
    </>
  );
}

export function CompareView(props: { a: string; b: string; jobs: ReadonlyMap<string, JobRow> }) {
  const { jobs } = props;
  const [a, problem_a] = usePageOf(props.a, jobs.get(props.a)?.revision ?? -1);
  const [b, problem_b] = usePageOf(props.b, jobs.get(props.b)?.revision ?? -1);
  const found = useMemo(() => (a === null || b === null ? null : compare(a, b)), [a, b]);
  if (props.a === "" || props.b === "") {
    return (
      <Notice>
        Two jobs are to be compared: tick them in <a href={placeHash("jobs")}>the list of jobs</a>.
      </Notice>
    );
  }
  return (
    <>
      {[problem_a, problem_b]
        .filter((problem) => problem !== "")
        .map((problem, i) => (
          <p class="notice" role="alert" key={i}>
            {problem}
          </p>
        ))}
      {found === null && problem_a === "" && problem_b === "" && (
        <Notice>Asking the server about both jobs…</Notice>
      )}
      {a !== null && b !== null && found !== null && (
        <Compared a={a} b={b} names={[props.a, props.b]} found={found} />
      )}
    </>
  );
}
