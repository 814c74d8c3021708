#!/usr/bin/env python3
"""Checks the files of this folder with the tools that are installed, and says what it skipped.

    check.py [--metrics FILE] [--live]

--metrics FILE  metrics as gordian exports them (curl .../metrics > FILE): each metric and label
                that the dashboard and the alerts use must be in it. Default: example.metrics in
                grafana/, which has all of them; a server without jobs exports only some.
--live          starts a Prometheus on this machine, for seconds, over those metrics, and asks it
                each query of the dashboard.

Exit code: 0 all that could run passed, 1 not. Needs Python 3.9 and PyYAML.
"""
import argparse
import http.server
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

try:
    import yaml
except ImportError:
    yaml = None

HERE = pathlib.Path(__file__).resolve().parent
GRAFANA = HERE / "grafana"
TARGET_LABELS = {"job", "instance"}  # which Prometheus adds
MOST_EXPOSURE = 2.0  # of the systemd unit; 10 is a unit that gives up nothing

results = {"passed": 0, "failed": 0, "skipped": 0}


def report(outcome, name, text=""):
    results[outcome] += 1
    print(f"{outcome:8}{name}" + (f": {text}" if text else ""))


def check(name, problems):
    report("failed" if problems else "passed", name, "; ".join(problems))


def run(name, *command, cwd=None):
    """A tool that says by its exit code whether it is content."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    output = (done.stdout + done.stderr).strip()
    check(name, [output or f"exit code {done.returncode}"] if done.returncode else [])
    return done.stdout


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d is not None]


# ---- Metrics

def exported(text):
    """The labels of each metric in an exposition; None where it has no sample that shows them."""
    labels = {}
    for line in text.splitlines():
        kind = re.match(r"# TYPE (\S+) (\S+)", line)
        if kind:
            suffix = {"counter": "_total", "info": "_info"}.get(kind[2], "")
            name = kind[1] if kind[1].endswith(suffix) else kind[1] + suffix
            labels.setdefault(name, None)
        sample = re.match(r"([a-z_]+)(?:\{(.*)\})? \S+", line)
        if sample and not line.startswith("#"):
            found = set(re.findall(r'([a-z_]+)="', sample[2] or ""))
            labels[sample[1]] = (labels.get(sample[1]) or set()) | found
    return labels


def unknown_in(expression, known):
    """What a query uses and gordian does not export."""
    problems = []
    for name, matchers in re.findall(r"\b(gordian_[a-z_]+)(?:\{([^}]*)\})?", expression):
        if name not in known:
            problems.append(f"no metric {name}")
        elif known[name] is not None:
            for label in re.findall(r"([a-z_]+)\s*(?:=~|!=|!~|=)", matchers):
                if label not in known[name] | TARGET_LABELS:
                    problems.append(f"{name} has no label {label}")
    used = {n for n in re.findall(r"\bgordian_[a-z_]+", expression)}
    if all(known.get(n) is not None for n in used):
        there = set().union(*(known[n] for n in used)) | TARGET_LABELS if used else set()
        for listed in re.findall(r"\b(?:by|on|group_left)\s*\(([^)]*)\)", expression):
            for label in filter(None, (part.strip() for part in listed.split(","))):
                if used and label not in there:
                    problems.append(f"no label {label} in {sorted(used)}")
    return problems


def dashboard_queries():
    dashboard = json.loads((GRAFANA / "gordian.json").read_text())
    queries = [(p["title"], t["expr"]) for p in dashboard["panels"] for t in p.get("targets", [])]
    queries += [(a["name"], a["expr"]) for a in dashboard["annotations"]["list"] if "expr" in a]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            queries.append((f"variable {variable['name']}", f"sum by ({metric[2]}) ({metric[1]})"))
    return queries


def check_metrics(known):
    problems = []
    for title, expression in dashboard_queries():
        problems += [f"panel '{title}': {p}" for p in unknown_in(expression, known)]
    check("metrics of the dashboard", problems)
    if yaml is None:
        report("skipped", "metrics of the alerts", "no PyYAML")
        return
    problems = []
    for document in documents(GRAFANA / "alerts.yaml"):
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            problems += [f"{rule['alert']}: {p}" for p in unknown_in(rule["expr"], known)]
    for document in documents(GRAFANA / "alerts_test.yaml"):
        for test in document["tests"]:
            for series in test["input_series"]:
                problems += [f"alerts_test: {p}" for p in unknown_in(series["series"], known)]
    check("metrics of the alerts", problems)


# ---- The dashboard's structure

def check_dashboard():
    dashboard = json.loads((GRAFANA / "gordian.json").read_text())
    problems, cells, ids = [], {}, set()
    for panel in dashboard["panels"]:
        title, at = panel["title"], panel["gridPos"]
        if panel["id"] in ids:
            problems.append(f"panel '{title}': its id is taken")
        ids.add(panel["id"])
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])):
            if cells.setdefault(cell, title) != title or cell[0] >= 24:
                problems.append(f"panel '{title}' lies on '{cells[cell]}' or outside")
                break
        if panel["type"] == "row":
            continue
        if not panel["description"] or not panel["targets"]:
            problems.append(f"panel '{title}' has no description or no query")
        for part in [panel, *panel["targets"]]:
            if part["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
                problems.append(f"panel '{title}' does not use the variable datasource")
        refs = [t["refId"] for t in panel["targets"]]
        if len(refs) != len(set(refs)):
            problems.append(f"panel '{title}' has a refId twice")
    if {v["name"] for v in dashboard["templating"]["list"]} != {"datasource", "job"}:
        problems.append("the variables are not datasource and job")
    check("dashboard: structure", problems)


# ---- Kubernetes

def pod_problems(where, pod, labels, services):
    problems = []

    def want(condition, text):
        if not condition:
            problems.append(f"{where}: {text}")

    context = pod.get("securityContext", {})
    want(context.get("runAsNonRoot") is True, "may run as root")
    want(context.get("seccompProfile", {}).get("type") == "RuntimeDefault", "no seccomp profile")
    want(pod.get("automountServiceAccountToken") is False, "mounts a service account's token")
    volumes = {v["name"] for v in pod.get("volumes", [])}
    mounted = set()
    for container in pod.get("initContainers", []) + pod["containers"]:
        name = container["name"]
        locked = container.get("securityContext", {})
        want(locked.get("allowPrivilegeEscalation") is False, f"{name} may gain privileges")
        want("ALL" in locked.get("capabilities", {}).get("drop", []), f"{name} has capabilities")
        want(re.fullmatch(r"\$\{[A-Z_]+\}", container["image"]), f"{name}: a fixed image")
        want("memory" in container.get("resources", {}).get("limits", {}), f"{name}: no limit")
        if "gordian" in container["image"].lower():
            want(locked.get("readOnlyRootFilesystem") is True, f"{name} may write its image")
        mounts = {m["name"] for m in container.get("volumeMounts", [])}
        want(mounts <= volumes, f"{name} mounts {mounts - volumes}, which the pod lacks")
        mounted |= mounts
        ports = {p["name"] for p in container.get("ports", [])}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            get = container.get(probe, {}).get("httpGet")
            if get:
                want(get["port"] in ports and get["path"] == "/healthz", f"{probe} asks nothing")
        for service in services:
            if service["spec"]["selector"].items() <= labels.items():
                for port in service["spec"]["ports"]:
                    target = port.get("targetPort", port["port"])
                    want(isinstance(target, int) or target in ports, f"no port {target}")
    want(mounted == volumes, f"nobody mounts {volumes - mounted}")
    return problems


def check_kubernetes():
    if yaml is None:
        report("skipped", "kubernetes: structure", "no PyYAML")
        return
    objects = [d for path in sorted((HERE / "kubernetes").glob("*.yaml")) for d in documents(path)]
    services = [o for o in objects if o["kind"] == "Service"]
    claims = {o["metadata"]["name"] for o in objects if o["kind"] == "PersistentVolumeClaim"}
    problems, pods = [], []
    for item in objects:
        where = f"{item['kind']} {item['metadata']['name']}"
        if not item.get("apiVersion") or "namespace" in item["metadata"]:
            problems.append(f"{where}: no apiVersion, or a namespace")
        if item["kind"] in ("Deployment", "Job"):
            template = item["spec"]["template"]
            labels = dict(template["metadata"]["labels"])
            if item["kind"] == "Job":
                labels["batch.kubernetes.io/job-name"] = item["metadata"]["name"]
            else:
                selector = item["spec"]["selector"]["matchLabels"]
                if not selector.items() <= labels.items():
                    problems.append(f"{where}: its selector does not match its pods")
                if item["spec"]["replicas"] != 1 or item["spec"]["strategy"]["type"] != "Recreate":
                    problems.append(f"{where}: two servers would share a sessions folder")
            pods.append(labels)
            problems += pod_problems(where, template["spec"], labels, services)
            for volume in template["spec"]["volumes"]:
                claim = volume.get("persistentVolumeClaim", {}).get("claimName")
                if claim and claim not in claims:
                    problems.append(f"{where}: no claim {claim}")
    selectors = [(f"Service {s['metadata']['name']}", s["spec"]["selector"]) for s in services]
    for policy in (o for o in objects if o["kind"] == "NetworkPolicy"):
        selectors.append(("NetworkPolicy", policy["spec"]["podSelector"]["matchLabels"]))
        for peer in (p for rule in policy["spec"]["ingress"] for p in rule["from"]):
            if peer.get("podSelector", {}).get("matchLabels") == {"gordian-access": "records"}:
                selectors.append(("NetworkPolicy's records", peer["podSelector"]["matchLabels"]))
    for where, selector in selectors:
        if not any(selector.items() <= labels.items() for labels in pods):
            problems.append(f"{where} selects no pod")
    check("kubernetes: structure", problems)
    report("skipped", "kubernetes: schema", "the test deploy.kubernetes checks it")
    report("skipped", "kubernetes: admission and a cluster",
           "kubectl's dry run asks a cluster, and there is none")


# ---- systemd, scripts, container, texts

def check_systemd():
    unit = HERE / "systemd" / "gordian-serve.service"
    if not shutil.which("systemd-analyze"):
        report("skipped", "systemd unit", "no systemd-analyze")
        return
    with tempfile.TemporaryDirectory() as folder:
        # The program must exist for `verify`: another stands in where gordian is not installed.
        copy = pathlib.Path(folder) / unit.name
        text = unit.read_text()
        if not pathlib.Path("/usr/bin/gordian").exists():
            text = text.replace("/usr/bin/gordian", "/bin/true")
        copy.write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
        own = [line for line in done.stderr.splitlines() if unit.name in line or folder in line]
        check("systemd-analyze verify", own or ([done.stderr] if done.returncode else []))
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", copy],
                              capture_output=True, text=True)
        score = re.search(r"Overall exposure level.*: ([0-9.]+)", done.stdout)
        if not score:
            check("systemd-analyze security", [done.stderr.strip() or "no score"])
        else:
            over = float(score[1]) > MOST_EXPOSURE
            check(f"systemd-analyze security ({score[1]} of 10)",
                  [f"above {MOST_EXPOSURE}"] if over else [])


def check_scripts():
    scripts = [*HERE.glob("slurm/*.sh"), *HERE.glob("slurm/*.sbatch"), *HERE.glob("ray/*.sh")]
    for script in sorted(scripts):
        run(f"bash -n {script.relative_to(HERE)}", "bash", "-n", str(script))
    if shutil.which("shellcheck"):
        run("shellcheck", "shellcheck", *map(str, sorted(scripts)))
    else:
        report("skipped", "shellcheck", "not installed")
    problems = []
    for script in HERE.rglob("*.py"):
        try:
            compile(script.read_text(), str(script), "exec")
        except SyntaxError as error:
            problems.append(str(error))
    check("Python scripts compile", problems)
    report("skipped", "slurm", "recipes that the tests e2e.slurm.* run")
    report("skipped", "ray", "a recipe that needs a cluster")


def check_container():
    text = (HERE / "container" / "Containerfile").read_text()
    lines = re.sub(r"\\\n(\s*#.*\n)*", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    steps = [line.split(None, 1) for line in lines if line.strip()]
    problems, stages = [], set()
    for word, rest in steps:
        if word == "FROM":
            if rest.split()[0] not in stages | {"${BASE}", "scratch"}:
                problems.append(f"FROM {rest}: neither a stage, BASE nor scratch")
            stages |= {rest.split()[-1]} if " AS " in rest else set()
        for stage in re.findall(r"--from=(\S+)", rest if word == "COPY" else ""):
            if stage not in stages:
                problems.append(f"no stage {stage}")
        if word in ("ENTRYPOINT", "CMD"):
            json.loads(rest)  # the exec form: no shell
    users = [rest for word, rest in steps if word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        problems.append("the image runs as root, or as a user that Kubernetes cannot check")
    check("container: structure", problems)
    report("skipped", "container: its last stage", "the test packages.image builds and runs it")
    report("skipped", "container: the stage before", "takes the headers of CUDA, and long")


def check_texts():
    problems = []
    for path in sorted(p for p in HERE.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        if path.suffix in (".json", ".metrics"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > 100 or line != line.rstrip() or "\t" in line:
                problems.append(f"{path.relative_to(HERE)}:{number}")
    check("lines of at most 100, no tabs, no blanks at the end", problems)


# ---- Prometheus

def check_promtool():
    if not shutil.which("promtool"):
        report("skipped", "alerts and their tests", "no promtool")
        return
    run("promtool check rules", "promtool", "check", "rules", "alerts.yaml", cwd=GRAFANA)
    run("promtool test rules", "promtool", "test", "rules", "alerts_test.yaml", cwd=GRAFANA)
    run("promtool check config", "promtool", "check", "config", "--syntax-only", "prometheus.yaml",
        cwd=GRAFANA)


class Exporter(http.server.BaseHTTPRequestHandler):
    """Answers as gordian does (/metrics, with a token) and as node-exporter does (/node)."""
    text = ""
    token = "example"

    def do_GET(self):
        as_gordian = self.path == "/metrics"
        if as_gordian and self.headers.get("Authorization") != f"Bearer {self.token}":
            self.send_error(401)
            return
        body, kind = self.text, "application/openmetrics-text; version=1.0.0; charset=utf-8"
        if not as_gordian:
            # The older text format, in which there is no type `info`.
            body, kind = re.sub(r"(?m)^#.*\n", "", self.text), "text/plain; version=0.0.4"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def live_problems(ask, queries, must_answer):
    problems = []
    for title, expression in queries:
        expression = expression.replace("$__rate_interval", "10s").replace("$job", ".+")
        try:
            if not ask("query", query=expression)["result"] and must_answer:
                problems.append(f"'{title}' is empty")
        except urllib.error.HTTPError as error:
            problems.append(f"'{title}': {json.loads(error.read())['error']}")
    renamed = ask("query", query='count({__name__=~"gordian_.+", exported_job=~".+"})')["result"]
    if renamed:
        problems.append("Prometheus has renamed the label job")
    for scrape, port in (("gordian", 7412), ("node", 9100)):
        up = ask("query", query=f'up{{job="{scrape}"}} == 1')["result"]
        if not up:
            problems.append(f"the scrape {scrape} of prometheus.yaml (port {port}) does not work")
    return problems


def check_live(text, must_answer):
    if not shutil.which("prometheus") or yaml is None:
        report("skipped", "live Prometheus", "no prometheus, or no PyYAML")
        return
    Exporter.text = text
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_address[1]}"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = documents(GRAFANA / "prometheus.yaml")[0]
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        for scrape in config["scrape_configs"]:
            scrape["static_configs"] = [{"targets": [address]}]
            if scrape["job_name"] == "node":
                scrape["metrics_path"] = "/node"
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        (folder / "gordian.token").write_text(Exporter.token + "\n")
        shutil.copy(GRAFANA / "alerts.yaml", folder)
        port = free_port()

        def ask(what, **parameters):
            url = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.loads(answer.read())["data"]

        with open(folder / "log", "w") as log:
            prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yaml",
                 f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log, stderr=log)
        try:
            problems = ["Prometheus did not start: " + (folder / "log").read_text()[-500:]]
            for _ in range(60):
                time.sleep(1)
                try:
                    if ask("query", query='count_over_time(up{job="gordian"}[1m]) > 4')["result"]:
                        problems = live_problems(ask, dashboard_queries(), must_answer)
                        break
                except OSError:
                    if prometheus.poll() is not None:
                        break
            firing = {a["labels"]["alertname"] for a in ask("alerts")["alerts"]
                      if a["state"] == "firing"} if prometheus.poll() is None else set()
            if must_answer and "GordianDeadlockConfirmed" not in firing:
                problems.append(f"the example's deadlock does not fire, but {sorted(firing)}")
        finally:
            prometheus.terminate()
            prometheus.wait()
            server.shutdown()
    check(f"live Prometheus: {len(dashboard_queries())} queries, both scrapes, an alert", problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metrics", type=pathlib.Path, default=GRAFANA / "example.metrics")
    parser.add_argument("--live", action="store_true")
    args = parser.parse_args()
    text = args.metrics.read_text()

    check_promtool()
    check_metrics(exported(text))
    check_dashboard()
    report("skipped", "dashboard: in Grafana", "this script has no Grafana")
    if args.live:
        check_live(text, must_answer=args.metrics == GRAFANA / "example.metrics")
    else:
        report("skipped", "live Prometheus", "asked for by --live")
    check_kubernetes()
    check_systemd()
    check_scripts()
    check_container()
    check_texts()
    print(f"{results['passed']} passed, {results['failed']} failed, {results['skipped']} skipped")
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
