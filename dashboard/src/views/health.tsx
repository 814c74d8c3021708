// How much gordian saw of the job, and what it may have missed.
import { count, plural, ranksText } from "../model/text";
import type { NodeStatus } from "../model/types";
import { usePage } from "../ui/context";
import { Notice } from "../ui/parts";

const kMostNodes = 256;

function NodeRow(props: { node: NodeStatus }) {
  const { node } = props;
  return (
    <tr>
      <td class="right">{node.number}</td>
      <td class="mono">{node.name}</td>
      <td class={node.away ? "loud nowrap" : "nowrap"}>
        {node.away ? "! away" : node.ended ? "■ ended" : "✓ connected"}
      </td>
    </tr>
  );
}

function Lines(props: { lines: readonly string[]; none: string }) {
  if (props.lines.length === 0) return <>{props.none}</>;
  return (
    <ul>
      {props.lines.map((line, i) => (
        <li key={i}>{line}</li>
      ))}
    </ul>
  );
}

export function HealthView() {
  const { page } = usePage();
  const evidence = page.status?.evidence ?? page.verdict?.evidence;
  const verdict = page.verdict;
  if (evidence === undefined) return <Notice>The page has no evidence to show.</Notice>;
  const missing = evidence.ranks_expected - evidence.ranks_seen;
  const nodes = page.status?.nodes ?? [];
  const away = nodes.filter((node) => node.away);
  const shown = [...away, ...nodes.filter((node) => !node.away)].slice(0, kMostNodes);
  const text = (value: number) => (value < 0 ? "unknown" : count(value));
  return (
    <>
      {evidence.records_lost > 0 && (
        <p class="alarm" role="alert">
          <strong>{plural(evidence.records_lost, "record")} lost.</strong> What depends on them is
          no proof.
        </p>
      )}
      <div class="columns">
        <div class="column">
          <section class="card" aria-labelledby="seen-title">
            <h2 id="seen-title">What gordian saw</h2>
            <dl class="facts">
              <dt>Ranks seen</dt>
              <dd class={missing > 0 ? "loud" : ""}>
                {text(evidence.ranks_seen)} of{" "}
                {evidence.ranks_expected > 0 ? count(evidence.ranks_expected) : "an unknown number"}
                {missing > 0 && `: ${plural(missing, "rank")} unseen`}
              </dd>
              <dt>Records</dt>
              <dd>{text(evidence.records)}</dd>
              <dt>Records lost</dt>
              <dd class={evidence.records_lost > 0 ? "loud" : ""}>{text(evidence.records_lost)}</dd>
              <dt>NCCL calls</dt>
              <dd>{text(evidence.nccl_calls)}</dd>
              <dt>Not visible</dt>
              <dd>
                <Lines lines={evidence.not_visible} none="nothing that gordian knows of" />
              </dd>
              <dt>Assumes</dt>
              <dd>
                <Lines lines={evidence.assumes} none="nothing" />
              </dd>
            </dl>
          </section>
          <section class="card" aria-labelledby="signs-title">
            <h2 id="signs-title">Signs</h2>
            {(verdict?.signs.length ?? 0) === 0 ? (
              <p class="dim">None: nothing was seen beside the verdict that may explain it.</p>
            ) : (
              <ul class="plain spaced">
                {verdict?.signs.map((sign, i) => (
                  <li key={i}>
                    <p>{sign.text}</p>
                    <p class="dim">
                      {sign.check}, {ranksText(sign.ranks)}
                    </p>
                  </li>
                ))}
              </ul>
            )}
          </section>
        </div>
        <div class="column">
          <section class="card" aria-labelledby="nodes-title">
            <div class="card-head">
              <h2 id="nodes-title">Nodes</h2>
              <p class={away.length > 0 ? "loud" : "dim"}>
                {nodes.length > 0 && plural(nodes.length, "node")}
                {away.length > 0 && `, ${count(away.length)} away`}
              </p>
            </div>
            {nodes.length === 0 ? (
              <p class="dim">The job runs on one node.</p>
            ) : (
              <div class="table-scroll" tabIndex={0} role="group" aria-labelledby="nodes-title">
                <table>
                  <thead>
                    <tr>
                      <th class="right">Number</th>
                      <th>Name</th>
                      <th>State</th>
                    </tr>
                  </thead>
                  <tbody>
                    {shown.map((node) => (
                      <NodeRow key={node.number} node={node} />
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            {nodes.length > shown.length && (
              <p class="dim">and {plural(nodes.length - shown.length, "more node")}</p>
            )}
          </section>
          <section class="card" aria-labelledby="made-title">
            <h2 id="made-title">This page</h2>
            <dl class="facts">
              <dt>gordian</dt>
              <dd>{page.gordian_version || "unknown version"}</dd>
              <dt>Made</dt>
              <dd>{page.made || "unknown"}</dd>
              {page.session !== "" && (
                <>
                  <dt>Session</dt>
                  <dd class="mono">{page.session}</dd>
                </>
              )}
              {verdict !== null && verdict.revision >= 0 && (
                <>
                  <dt>Verdict</dt>
                  <dd>
                    revision {verdict.revision}
                    {verdict.written !== "" && ` of ${verdict.written}`}
                    {verdict.closed ? ", the last one" : ", not the last one"}
                  </dd>
                </>
              )}
            </dl>
          </section>
        </div>
      </div>
    </>
  );
}
