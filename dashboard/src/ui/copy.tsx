// A button that copies a text and says that it did.
import { useEffect, useState } from "preact/hooks";

// Pages that came by plain HTTP from another host have no clipboard interface.
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

export function CopyButton(props: { label: string; text: string; title?: string }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (said === "") return undefined;
    const timer = setTimeout(() => say(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => {
    void copyText(props.text).then((copied) => say(copied ? "Copied" : "Cannot copy here"));
  };
  return (
    <button type="button" class="button" title={props.title ?? props.text} onClick={copy}>
      <span aria-live="polite">{said === "" ? props.label : said}</span>
    </button>
  );
}

// A command with its own button.
export function Command(props: { what: string; command: string }) {
  return (
    <div class="command">
      <span class="command-what">{props.what}</span>
      <code>
        {props.command.split(" ").map((word, i) => (
          <span key={i} class="word">{`${word} `}</span>
        ))}
      </code>
      <CopyButton label="Copy" text={props.command} title={`Copy: ${props.command}`} />
    </div>
  );
}
