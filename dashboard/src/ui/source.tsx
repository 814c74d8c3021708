// Shows the source lines of a call site.
import { usePage } from "./context";

export function SourceLines(props: { site: string; around?: number }) {
  const { page } = usePage();
  const source = page.sources.find((candidate) => candidate.site === props.site);
  if (props.site === "") return null;
  if (source === undefined) return <p class="dim small">The source is not part of this page.</p>;
  const around = props.around ?? 100;
  // A call goes on to the next lines where its own ends with an open bracket or a comma.
  const called = source.lines.slice(source.line - source.first_line);
  const rest = Math.min(3, called.findIndex((text) => !/[(,]\s*$/.test(text)));
  const lines = source.lines
    .map((text, i) => ({ text, number: source.first_line + i }))
    .filter(({ number }) => number >= source.line - around)
    .filter(({ number }) => number <= source.line + Math.max(around, rest));
  return (
    <figure class="source">
      <figcaption title={source.path}>
        {source.path}:{source.line}
      </figcaption>
      <div class="code" tabIndex={0} role="group" aria-label={`Source of ${props.site}`}>
        {lines.map((line) => (
          <div key={line.number} class={line.number === source.line ? "line here" : "line"}>
            <span class="line-number">{line.number}</span>
            <span class="line-mark">{line.number === source.line ? "▸" : " "}</span>
            <span class="line-text">{line.text || " "}</span>
          </div>
        ))}
      </div>
    </figure>
  );
}
