// Deadlocks that the run did not meet, and another order of its threads would.
import { capitalised, plural, rankText } from "../model/text";
import type { PredictedCall, Prediction, Predictions } from "../model/types";

const kMostShown = 20;

function Call(props: { call: PredictedCall }) {
  const { call, communicator, site } = props.call;
  return (
    <>
      <strong class="mono">{communicator === "" ? call : `${call} on ${communicator}`}</strong>
      {site !== "" && (
        <>
          {" at "}
          <span class="mono site">{site}</span>
        </>
      )}
    </>
  );
}

function One(props: { prediction: Prediction }) {
  const { prediction } = props;
  return (
    <li>
      <p>
        <span class="chip tone-unknown">{prediction.confidence}</span>{" "}
        {capitalised(prediction.summary)}
      </p>
      {prediction.doubt !== "" && <p class="dim">{prediction.doubt}</p>}
      <ul class="prediction">
        {prediction.cycle.map((call, i) => (
          <li key={i}>
            {rankText(call.rank)} would wait in <Call call={call} />{" "}
            <span class="dim">(thread {call.thread})</span>
          </li>
        ))}
      </ul>
      {prediction.orders.length > 0 && <p class="dim">The order that leads there:</p>}
      <ul class="prediction">
        {prediction.orders.map((order, i) => (
          <li key={i}>
            {rankText(order.first.rank)}: thread {order.first.thread} calls{" "}
            <Call call={order.first} /> before thread {order.then.thread} calls{" "}
            <Call call={order.then} />
            {order.as_recorded ? ", as recorded" : "; recorded the other way round"}
          </li>
        ))}
      </ul>
      {prediction.alike > 0 && (
        <p class="dim">{plural(prediction.alike, "more", "more")} between other ranks or calls here</p>
      )}
    </li>
  );
}

export function PredictionsCard(props: { predictions: Predictions }) {
  const { found, freedom, rests_on, advice } = props.predictions;
  const shown = found.slice(0, kMostShown);
  return (
    <section class="card tone-edge-unknown" aria-labelledby="predictions-title">
      <h2 id="predictions-title">Could have hung in another order</h2>
      <ul class="plain predictions">
        {shown.map((prediction, i) => (
          <One key={i} prediction={prediction} />
        ))}
      </ul>
      {found.length > shown.length && (
        <p class="dim">and {plural(found.length - shown.length, "more", "more")}</p>
      )}
      <p class="dim">
        Rests on {freedom}: {rests_on}
      </p>
      <p>
        <strong>What to change:</strong> {advice}
      </p>
    </section>
  );
}
