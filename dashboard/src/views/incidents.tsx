// The troubles of jobs over time: what, when, who was told, who has taken note.
import { useEffect, useState } from "preact/hooks";

import { acknowledge, fetchIncidents } from "../data/incidents";
import {
  alertText,
  foundIncidents,
  jobOf,
  lastedText,
  revisionsText,
  timeText,
} from "../model/incidents";
import { count, plural, printable, rankText } from "../model/text";
import type { Incident } from "../model/types";
import { moveInList } from "../ui/keys";
import { Filter, KindChip, Notice } from "../ui/parts";
import { routeHash, setPlaceParam } from "../ui/route";

const kMostShown = 200;
const kMostCulprits = 8;

function Who(props: { incident: Incident }) {
  const { culprits, victims } = props.incident;
  const shown = culprits.slice(0, kMostCulprits);
  return (
    <>
      <dt>Ranks</dt>
      <dd>
        {culprits.length === 0 && "no rank in particular"}
        {shown.map((culprit, i) => (
          <span key={culprit.rank}>
            {i > 0 && ", "}
            <strong>{rankText(culprit.rank)}</strong>
            {culprit.pid > 0 && <span class="dim">{` pid ${culprit.pid}`}</span>}
            {culprit.node !== "" && <span class="dim">{` on ${culprit.node}`}</span>}
          </span>
        ))}
        {culprits.length > shown.length && ` and ${count(culprits.length - shown.length)} more`}
        {victims !== "" && <span class="dim">{`; behind them: ${victims}`}</span>}
      </dd>
    </>
  );
}

function AcknowledgeForm(props: { id: string; onDone: () => void }) {
  const [by, setBy] = useState("");
  const [note, setNote] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async () => {
    setBusy(true);
    try {
      await acknowledge(props.id, by.trim(), note.trim());
      props.onDone();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <form
      class="tools"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy) void send();
      }}
    >
      <label class="field">
        Your name
        <input
          type="text"
          required
          maxLength={200}
          value={by}
          onInput={(event) => setBy(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        Note
        <input
          type="text"
          maxLength={500}
          value={note}
          onInput={(event) => setNote(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button primary">
        Acknowledge
      </button>
      {problem !== "" && (
        <p class="loud" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}

interface OneProps {
  incident: Incident;
  number: number;
  address: string | null; // of the job; null: it is not here any more
  now: number;
  may_acknowledge: boolean;
  onChange: () => void;
}

function OneIncident(props: OneProps) {
  const { incident } = props;
  const [asks, setAsks] = useState(false);
  const title = `incident-${incident.id}`;
  return (
    <li class="incident">
      <h3 id={title}>
        <KindChip verdict={incident.verdict} confidence={incident.confidence} />
        <span class="dim">{incident.confidence}</span>
        {props.address === null ? (
          <span id={`row-${props.number}`} class="mono" tabIndex={-1}>
            {incident.job}
          </span>
        ) : (
          <a id={`row-${props.number}`} class="mono" href={props.address}>
            {incident.job}
          </a>
        )}
        <span class={incident.open ? "loud" : "dim"}>{lastedText(incident, props.now)}</span>
      </h3>
      <p>{incident.summary}</p>
      <dl class="facts">
        <dt>Since</dt>
        <dd>
          {timeText(incident.opened)} <span class="dim">(incident {incident.id})</span>
        </dd>
        <Who incident={incident} />
        <dt>Verdicts</dt>
        <dd>{revisionsText(incident)}</dd>
        <dt>Alerts</dt>
        <dd>
          {incident.alerts.length === 0 && "none went out"}
          <ul class="plain">
            {incident.alerts.map((alert, i) => (
              <li key={i}>{alertText(alert)}</li>
            ))}
          </ul>
        </dd>
        <dt>Acknowledged</dt>
        <dd>
          {incident.acknowledgements.length === 0 && "by nobody"}
          <ul class="plain">
            {incident.acknowledgements.map((one, i) => (
              <li key={i}>
                by <strong>{one.who}</strong>, {timeText(one.time)}
                {one.note !== "" && `: ${one.note}`}
              </li>
            ))}
          </ul>
        </dd>
      </dl>
      {props.may_acknowledge && !asks && (
        <button
          type="button"
          class="button"
          aria-describedby={title}
          onClick={() => setAsks(true)}
        >
          Acknowledge…
        </button>
      )}
      {props.may_acknowledge && asks && (
        <AcknowledgeForm
          id={incident.id}
          onDone={() => {
            setAsks(false);
            props.onChange();
          }}
        />
      )}
    </li>
  );
}

// Somebody who may only look can show an admin's token here.
function AdminToken(props: { asked_at: number; onToken: (token: string) => void }) {
  const [token, setToken] = useState("");
  const [tried_at, setTried] = useState(Infinity);
  return (
    <details class="admin">
      <summary>To acknowledge an incident, show an admin's token</summary>
      <form
        class="tools"
        onSubmit={(event) => {
          event.preventDefault();
          setTried(props.asked_at);
          props.onToken(token.trim());
        }}
      >
        <p class="dim">
          <code>gordian token --role admin DIR</code> prints it; DIR is the folder of{" "}
          <code>gordian serve --sessions</code>, or the session.
        </p>
        <label class="field">
          Token
          <input
            type="password"
            required
            autocomplete="off"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button">
          Show it
        </button>
        {props.asked_at > tried_at && (
          <p role="status">The token that this tab holds is no admin's of this server.</p>
        )}
      </form>
    </details>
  );
}

interface Props {
  filter: string;
  jobs: ReadonlyMap<string, unknown>;
  changed_at: number; // another number: ask again
  may_acknowledge: boolean;
  onToken: (token: string) => void;
}

export function IncidentsView(props: Props) {
  const [incidents, setIncidents] = useState<Incident[] | null>(null);
  const [problem, setProblem] = useState("");
  const [asked, setAsked] = useState(0);
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    let left = false;
    const come = (list: Incident[] | null, why: string) => {
      if (left) return; // another answer is on its way
      if (list !== null) setIncidents(list);
      setProblem(why);
      setNow(Date.now());
    };
    fetchIncidents().then(
      (list) => come(list, ""),
      (error) => come(null, error instanceof Error ? error.message : String(error)),
    );
    return () => {
      left = true;
    };
  }, [props.changed_at, asked]);
  const open = incidents?.filter((incident) => incident.open).length ?? 0;
  useEffect(() => {
    if (open === 0) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [open > 0]);
  const address = (incident: Incident) => {
    const name = jobOf(incident, props.jobs);
    return name === null ? null : routeHash(name, "verdict");
  };
  const found = foundIncidents(incidents ?? [], props.filter);
  const shown = found.slice(0, kMostShown);
  return (
    <section class="card" aria-labelledby="incidents-title">
      <div class="card-head">
        <h2 id="incidents-title">Incidents</h2>
        {incidents !== null && (
          <p class="dim">
            {plural(incidents.length, "incident")}, {count(open)} open
            {found.length < incidents.length && `; ${count(found.length)} match`}
          </p>
        )}
      </div>
      {problem !== "" && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      {incidents === null && problem === "" && <Notice>Asking the server…</Notice>}
      {incidents !== null && incidents.length > 0 && (
        <div class="tools">
          <Filter
            label="Filter: job, kind, node, who"
            value={props.filter}
            onChange={(value) => setPlaceParam("incidents", "q", value)}
          />
        </div>
      )}
      {incidents?.length === 0 && (
        <p>
          There has been no incident. gordian opens one when it says that a job is stuck, and keeps
          it for 90 days.
        </p>
      )}
      {incidents !== null && incidents.length > 0 && found.length === 0 && (
        <p class="dim">No incident matches “{printable(props.filter)}”.</p>
      )}
      <ul
        class="plain incidents"
        data-list=""
        tabIndex={-1}
        aria-label="Incidents"
        onKeyDown={(event) => moveInList(event, "row-", shown.length)}
      >
        {shown.map((incident, i) => (
          <OneIncident
            key={incident.id}
            incident={incident}
            number={i}
            address={address(incident)}
            now={now}
            may_acknowledge={props.may_acknowledge}
            onChange={() => setAsked((n) => n + 1)}
          />
        ))}
      </ul>
      {found.length > shown.length && (
        <p class="dim">
          The newest {count(shown.length)} of {count(found.length)} are shown; the filter finds the
          others.
        </p>
      )}
      {incidents !== null && incidents.length > 0 && !props.may_acknowledge && (
        <AdminToken asked_at={props.changed_at} onToken={props.onToken} />
      )}
    </section>
  );
}
