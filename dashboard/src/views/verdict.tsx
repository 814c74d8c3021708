// The verdict: what is stuck, why, what to change, and what gordian did not see.
import { useState } from "preact/hooks";

import {
  bytesText,
  count,
  durationText,
  foldRanks,
  operationText,
  plural,
  rankText,
  ranksText,
  shellWord,
} from "../model/text";
import type { Finding, FoundCommunicator, Member, Verdict, WaitEdge } from "../model/types";
import {
  confidenceText,
  instanceOp,
  kindOf,
  memberText,
  quietText,
  toneOf,
  waitPhrase,
} from "../model/words";
import { usePage } from "../ui/context";
import { Command, CopyButton } from "../ui/copy";
import { KindChip, Notice, ViewLink } from "../ui/parts";
import type { View } from "../ui/route";
import { SourceLines } from "../ui/source";
import { PredictionsCard } from "./predictions";

const kMostCommunicators = 12;
const kNextStuck: readonly (readonly [View, string])[] = [
  ["stacks", "Stacks"],
  ["graph", "Wait-for graph"],
  ["diff", "Diff of two ranks"],
];
const kNextCalm: typeof kNextStuck = [
  ["ranks", "Ranks"],
  ["communicators", "Communicators"],
];
const kLongQuiet = 60; // seconds without progress that a calm card must mention

function Site(props: { site: string }) {
  const { page } = usePage();
  const [open, setOpen] = useState(false);
  if (props.site === "") return <span class="dim">at an unknown call site</span>;
  const known = page.sources.some((source) => source.site === props.site);
  if (!known) return <span class="mono site">{props.site}</span>;
  return (
    <>
      <button
        type="button"
        class="link mono site"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {props.site}
      </button>
      <SourceLines site={props.site} {...(open ? {} : { around: 0 })} />
    </>
  );
}

function CycleRow(props: { edge: WaitEdge; last: boolean }) {
  const { edge } = props;
  const [before, after] = waitPhrase(edge);
  return (
    <li class="cycle-row">
      <div class="cycle-rank">
        <span class="rank-badge">{rankText(edge.rank)}</span>
      </div>
      <div class="cycle-body">
        <p>
          is in <strong class="mono">{operationText(edge)}</strong>
          {edge.bytes > 0 && <span class="dim"> ({bytesText(edge.bytes)})</span>}
        </p>
        <div class="cycle-site">
          <Site site={edge.site} />
        </div>
        <p class="waits">
          <span class="arrow" aria-hidden="true">
            {props.last ? "↺" : "↓"}
          </span>{" "}
          {before} <strong>{rankText(edge.waits_for_rank)}</strong>
          {after !== "" && `, which ${after}`}
          {props.last && <span class="dim"> (closes the cycle)</span>}
        </p>
        {edge.detail !== "" && <p class="because">because {edge.detail}</p>}
      </div>
    </li>
  );
}

// Where there is a cycle, its rows show the source already.
function MemberSite(props: { site: string; with_source: boolean }) {
  if (props.site === "") return null;
  if (!props.with_source) {
    return (
      <>
        {" at "}
        <span class="mono site">{props.site}</span>
      </>
    );
  }
  return (
    <div class="cycle-site">
      <Site site={props.site} />
    </div>
  );
}

// Members of one operation, folded by what they do.
function StuckOperations(props: { finding: Finding }) {
  const has_cycle = props.finding.cycle.length > 0;
  return (
    <ul class="operations">
      {props.finding.operations.map((operation) => {
        const groups = new Map<string, { member: Member; ranks: number[] }>();
        for (const member of operation.members) {
          const key = `${member.state}/${member.instead}/${member.site}`;
          const group = groups.get(key);
          if (group === undefined) groups.set(key, { member, ranks: [member.rank] });
          else group.ranks.push(member.rank);
        }
        return (
          <li key={`${operation.comm}/${operation.op}/${operation.seq}`}>
            <p>
              <strong class="mono">
                {operationText({ ...operation, op: instanceOp(operation.op) })}
              </strong>{" "}
              <span class="dim">{operation.bytes > 0 && bytesText(operation.bytes)}</span>
            </p>
            <ul>
              {[...groups].map(([key, group]) => (
                <li key={key}>
                  {ranksText(group.ranks)} {memberText(group.member, group.ranks.length)}
                  <MemberSite site={group.member.site} with_source={!has_cycle} />
                </li>
              ))}
            </ul>
          </li>
        );
      })}
    </ul>
  );
}

function FurtherFinding(props: { finding: Finding }) {
  const { finding } = props;
  return (
    <li class="further">
      <p>
        <KindChip verdict={finding.verdict} confidence={finding.confidence} />{" "}
        <span class="dim">
          {finding.confidence} · {finding.check}
        </span>
      </p>
      <p>{finding.summary}</p>
      {finding.advice !== "" && <p class="dim">{finding.advice}</p>}
    </li>
  );
}

function Since() {
  const { page, since_progress_s } = usePage();
  const text = quietText(page.verdict?.verdict ?? "", since_progress_s);
  if (text === "") return null;
  return (
    <span class="since">
      no progress for <strong class="tabular">{text}</strong>
      {page.status?.job_ended !== false
        ? " when the job ended"
        : !page.live && " when gordian said so"}
    </span>
  );
}

function Calm(props: { verdict: Verdict }) {
  const { page, since_progress_s } = usePage();
  const { verdict } = props;
  const kind = kindOf(verdict.verdict);
  const quiet = since_progress_s >= kLongQuiet && page.status?.job_ended === false;
  return (
    <section class={`card tone-edge-${kind.tone}`} aria-labelledby="verdict-title">
      <h2 id="verdict-title" class="kind">
        <KindChip verdict={verdict.verdict} confidence={verdict.confidence} />
        <span class="confidence">{verdict.confidence}</span>
        <Since />
      </h2>
      <p class="summary">{verdict.summary || "gordian has not decided anything yet."}</p>
      {quiet && (
        <Notice>
          No rank has moved for {durationText(since_progress_s)}. gordian has found nothing that is
          stuck, which is not the same as a proof that nothing is.
        </Notice>
      )}
      {verdict.advice !== "" && <p>{verdict.advice}</p>}
    </section>
  );
}

function Problem(props: { verdict: Verdict }) {
  const { verdict } = props;
  const tone = toneOf(verdict.verdict, verdict.confidence);
  const after = durationText(verdict.detected_after_s);
  return (
    <section class={`card tone-edge-${tone}`} aria-labelledby="verdict-title">
      <h2 id="verdict-title" class="kind">
        <KindChip verdict={verdict.verdict} confidence={verdict.confidence} />
        <span class="confidence" title={confidenceText(verdict.verdict, verdict.confidence)}>
          {verdict.confidence}
          {after !== "" && ` after ${after}`}
        </span>
        <Since />
      </h2>
      <p class="summary">{verdict.summary}</p>
      {verdict.advice !== "" && (
        <div class="advice">
          <h3>What to change</h3>
          <p>{verdict.advice}</p>
        </div>
      )}
    </section>
  );
}

// Communicators that were made at one place are told with that place once.
function Communicators(props: { communicators: readonly FoundCommunicator[] }) {
  const shown = props.communicators.slice(0, kMostCommunicators);
  const sites = [...new Set(shown.map((comm) => comm.site))];
  return (
    <>
      {sites.map((site) => (
        <div key={site}>
          <ul class="inline">
            {shown
              .filter((comm) => comm.site === site)
              .map((comm) => (
                <li key={comm.comm}>
                  <span class="mono">{comm.name}</span>{" "}
                  <span class="dim">{`{${foldRanks(comm.ranks, 4)}}`}</span>
                </li>
              ))}
          </ul>
          {site !== "" && (
            <p class="dim small">
              made at <span class="mono">{site}</span>
            </p>
          )}
        </div>
      ))}
      {props.communicators.length > shown.length && (
        <ViewLink view="communicators">
          {`and ${count(props.communicators.length - shown.length)} more`}
        </ViewLink>
      )}
    </>
  );
}

function Who(props: { verdict: Verdict }) {
  const { verdict } = props;
  const processOf = new Map(verdict.culprit_processes.map((culprit) => [culprit.rank, culprit]));
  return (
    <section class="card who" aria-labelledby="who-title">
      <h2 id="who-title">Who</h2>
      <dl class="facts">
        <dt>Look first at</dt>
        <dd>
          {verdict.culprit_ranks.length === 0 && "no rank in particular"}
          <ul class="plain">
            {verdict.culprit_ranks.slice(0, 16).map((rank) => {
              const culprit = processOf.get(rank);
              return (
                <li key={rank}>
                  <strong>{rankText(rank)}</strong>
                  {culprit !== undefined && (
                    <span class="dim">
                      {" "}
                      pid <span class="mono">{culprit.pid}</span>
                      {culprit.node !== "" && (
                        <>
                          {" "}
                          on <span class="mono">{culprit.node}</span>
                        </>
                      )}
                    </span>
                  )}
                </li>
              );
            })}
          </ul>
          {verdict.culprit_ranks.length > 16 &&
            `and ${plural(verdict.culprit_ranks.length - 16, "more rank")}`}
        </dd>
        <dt>Victims</dt>
        <dd>
          {verdict.victim_ranks.length === 0
            ? "none"
            : `${ranksText(verdict.victim_ranks)}: ${
                verdict.victim_ranks.length === 1 ? "it waits" : "they wait"
              } behind this and ${verdict.victim_ranks.length === 1 ? "is" : "are"} not the cause`}
        </dd>
        {verdict.communicators.length > 0 && (
          <>
            <dt>Communicators</dt>
            <dd>
              <Communicators communicators={verdict.communicators} />
            </dd>
          </>
        )}
        {verdict.restarts !== null && (
          <>
            <dt>Restarts</dt>
            <dd>
              {plural(verdict.restarts.times, "time")}, {ranksText(verdict.restarts.ranks)}:{" "}
              {verdict.restarts.because}
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function Limits(props: { verdict: Verdict }) {
  const { verdict, confidence, evidence } = props.verdict;
  const { not_visible, assumes, records_lost } = evidence;
  const nothing = not_visible.length === 0 && assumes.length === 0 && records_lost <= 0;
  return (
    <section class="card limits" aria-labelledby="limits-title">
      <h2 id="limits-title">What this rests on</h2>
      <dl class="facts">
        <dt>Confidence</dt>
        <dd>{confidenceText(verdict, confidence) || "none"}</dd>
        {nothing && (
          <>
            <dt>Not seen</dt>
            <dd>gordian knows of nothing that it did not see, and assumes nothing.</dd>
          </>
        )}
        {records_lost > 0 && (
          <>
            <dt>Lost</dt>
            <dd class="loud">{plural(records_lost, "record")} lost</dd>
          </>
        )}
        {not_visible.length > 0 && (
          <>
            <dt>Not seen</dt>
            <dd>
              <ul>
                {not_visible.map((line, i) => (
                  <li key={i}>{line}</li>
                ))}
              </ul>
            </dd>
          </>
        )}
        {assumes.length > 0 && (
          <>
            <dt>Assumes</dt>
            <dd>
              <ul>
                {assumes.map((line, i) => (
                  <li key={i}>{line}</li>
                ))}
              </ul>
            </dd>
          </>
        )}
        {props.verdict.signs.map((sign, i) => [
          <dt key={`t${i}`}>Sign</dt>,
          <dd key={`d${i}`}>
            {sign.text} <span class="dim">({sign.check})</span>
          </dd>,
        ])}
      </dl>
    </section>
  );
}

function Next(props: { stuck: boolean }) {
  const { page } = usePage();
  const session = shellWord(page.session === "" ? "latest" : page.session);
  return (
    <section class="card next" aria-labelledby="next-title">
      <h2 id="next-title">Next</h2>
      <div class="commands">
        {props.stuck ? (
          <>
            <Command what="Everything, with stacks" command={`gordian explain ${session}`} />
            <Command
              what="A small program that hangs the same way"
              command={`gordian replay ${session} -o hang --minimize --verify 20`}
            />
          </>
        ) : (
          <Command what="What every rank is at" command={`gordian status ${session}`} />
        )}
      </div>
      <div class="buttons">
        {page.text !== "" && (
          <CopyButton label="Copy as text" text={page.text} title="Copy the report as plain text" />
        )}
        {(props.stuck ? kNextStuck : kNextCalm).map(([view, title]) => (
          <ViewLink key={view} view={view} class="button">
            {title}
          </ViewLink>
        ))}
      </div>
    </section>
  );
}

export function VerdictView() {
  const { page } = usePage();
  const verdict = page.verdict;
  if (verdict === null) {
    return (
      <section class="card">
        <h2>No verdict yet</h2>
        <p>{page.status?.summary || "gordian has not decided anything about this job yet."}</p>
      </section>
    );
  }
  const tone = kindOf(verdict.verdict).tone;
  const stuck = tone === "bad";
  return (
    <div class="verdict">
      {stuck ? <Problem verdict={verdict} /> : <Calm verdict={verdict} />}
      <div class="columns">
        <div class="column">
          {!stuck && page.predictions !== null && (
            <PredictionsCard predictions={page.predictions} />
          )}
          {!stuck && <Limits verdict={verdict} />}
          {verdict.cycle.length > 0 && (
            <section class="card the-cycle" aria-labelledby="cycle-title">
              <h2 id="cycle-title">The cycle</h2>
              <ol class="cycle">
                {verdict.cycle.slice(0, 64).map((edge, i) => (
                  <CycleRow key={i} edge={edge} last={i + 1 === verdict.cycle.length} />
                ))}
              </ol>
              {verdict.cycle.length > 64 && <p>and {count(verdict.cycle.length - 64)} more</p>}
            </section>
          )}
          {verdict.operations.length > 0 && (
            <section class="card" aria-labelledby="stuck-title">
              <h2 id="stuck-title">What is stuck</h2>
              <StuckOperations finding={verdict} />
            </section>
          )}
          {verdict.findings.length > 0 && (
            <section class="card" aria-labelledby="further-title">
              <h2 id="further-title">Further findings</h2>
              <ul class="plain">
                {verdict.findings.map((finding, i) => (
                  <FurtherFinding key={i} finding={finding} />
                ))}
              </ul>
            </section>
          )}
          {verdict.disproved.length > 0 && (
            <section class="card" aria-labelledby="disproved-title">
              <h2 id="disproved-title">Disproved: gordian said this, and it ended after all</h2>
              <ul class="plain">
                {verdict.disproved.map((finding, i) => (
                  <FurtherFinding key={i} finding={finding} />
                ))}
              </ul>
            </section>
          )}
        </div>
        <div class="column">
          {stuck && <Who verdict={verdict} />}
          {stuck && <Limits verdict={verdict} />}
          <Next stuck={stuck} />
        </div>
      </div>
    </div>
  );
}
